//! Building, serving, reloading and stopping.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use config::Corefile;
use config::corefile::{self, Failure, Source};
use config::settings::Settings;
use engine::{Build, Built, Gateway, Limits, Live, Origin, Process, Stage};
use log::LevelFilter;
use transports::admin::{Admin, Local};
use transports::{Bounds, Fronts, Workers};

use crate::banner;
use crate::control::{self, Counter};
use crate::demo::Demo;
use crate::signals::{Signals, Told};

/// How long the process waits at its end for what is written out, such as the last messages of *dnstap*.
const CLOSING: Duration = Duration::from_secs(2);

/// A file with the process id, removed when dropped.
struct PidFile(PathBuf);

impl Drop for PidFile {
    fn drop(&mut self) {
        // It may be gone already, which is just as well.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Everything that a reload touches.
struct Server<'a> {
    source: &'a Source,
    port: u16,
    process: Arc<Process>,
    gateway: Arc<Gateway>,
    fronts: Fronts,
    admin: Admin,
    lameduck: Duration,
    level: LevelFilter,
}

/// Says whether the Corefile at `source`, which is called `name`, is right, without serving it.
///
/// # Errors
/// All that is wrong, ready to be printed.
pub(crate) fn check(settings: &Settings, source: &Source, name: &Path) -> Result<String, String> {
    let process = Arc::new(process(settings));
    let common = engine::Common::new(limits(settings));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let _inside = runtime.enter();
    let (corefile, built) = build(source, settings.port, &process, common, None)
        .map_err(|failure| failure.to_string())?;
    let warnings = corefile
        .warnings
        .iter()
        .chain(&built.warnings)
        .map(|one| corefile.render_warning(one) + "\n");
    let clusters = corefile.blocks.iter().filter(|block| block.cluster().is_some()).count();
    let blocks = match corefile.blocks.len() - clusters {
        1 => "1 block".to_owned(),
        count => format!("{count} blocks"),
    };
    let clusters = match clusters {
        0 => String::new(),
        1 => " and 1 cluster".to_owned(),
        count => format!(" and {count} clusters"),
    };
    let odd = match corefile.warnings.len() + built.warnings.len() {
        0 => "",
        1 => ", and one warning",
        _ => ", and warnings",
    };
    Ok(warnings.chain([format!("{} is right: {blocks}{clusters}{odd}", name.display())]).collect())
}

/// Serves until told to stop; the exit code.
///
/// # Errors
/// What keeps the process from starting.
pub(crate) fn serve(
    settings: &Settings,
    source: &Source,
    demo: Option<&Demo>,
) -> anyhow::Result<u8> {
    let control = runtime()?;
    let code = control.block_on(run(settings, source, demo));
    control.shutdown_timeout(Duration::from_millis(500));
    code
}

/// Starts the threads for everything but queries. Where the system has no more threads the runtime panics, and waits for those that it
/// has not: there is nothing to go on with, so that the process says so and ends.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|panic| {
        let why = panic.payload_as_str().unwrap_or("no reason is known");
        crate::say(&format!("cannot start the runtime: {why}"));
        std::process::exit(1);
    }));
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build();
    std::panic::set_hook(hook);
    built.context("cannot start the runtime")
}

/// The life of the process.
async fn run(settings: &Settings, source: &Source, demo: Option<&Demo>) -> anyhow::Result<u8> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let process = Arc::new(process(settings));
    let common = engine::Common::new(limits(settings));
    note_panics(&common);
    let (corefile, built) = build(source, settings.port, &process, Arc::clone(&common), None)?;
    warn(&corefile, &built);
    let mut built = built;
    let workers = Workers::start(settings.workers()).context("cannot start the worker threads")?;
    let (bounds, few) = bounds(settings).within_descriptors(settings.workers());
    if let Some(few) = few {
        log::warn!("{few}");
    }
    let limits = transports::Limits::new(bounds);
    let fronts = Fronts::new(workers, limits, settings.grace);
    let admin = Admin::new();
    if !wait(&mut built, corefile, &mut signals).await? {
        return Ok(0);
    }
    let bound = fronts.bind(built.live.groups())?;
    let opened = admin.bind(std::mem::take(&mut built.pages))?;
    let tasks = built.tasks();
    let (lameduck, debug) = (built.lameduck, built.debug);
    let gateway = Arc::new(Gateway::new(built.live));
    let mut server = Server {
        source,
        port: settings.port,
        process,
        gateway,
        fronts,
        admin,
        lameduck,
        level: log::max_level(),
    };
    server.debug(debug);
    let gateway = Arc::clone(&server.gateway);
    server.fronts.start(bound, &gateway);
    server.admin.start(opened);
    for (_, task) in tasks {
        tokio::spawn(task);
    }
    let counter = Counter::new(gateway, Arc::clone(&server.process));
    let run_dir = demo.map_or(&*settings.run_dir, Demo::run_dir);
    let _socket = Local::open(control::path(run_dir), Arc::new(counter));
    if !settings.quiet {
        crate::print(&banner::serving(&server.gateway.live()));
    }
    if let Some(demo) = demo {
        crate::print(&demo.invitation());
    }
    let _pid_file = settings.pid_file.as_deref().and_then(write_pid);
    server.attend(&mut signals).await
}

/// Waits for what the configuration needs before it serves; false if the process was told to stop meanwhile.
///
/// # Errors
/// What keeps it from serving.
async fn wait(
    built: &mut Built,
    corefile: Corefile,
    signals: &mut Signals,
) -> Result<bool, Failure> {
    let all = ready(built, corefile);
    tokio::pin!(all);
    loop {
        tokio::select! {
            done = &mut all => return done.map(|()| true),
            told = signals.next() => if told != Told::Reload { return Ok(false) },
        }
    }
}

/// Waits for all that the configuration needs, at once.
///
/// # Errors
/// What keeps it from serving.
async fn ready(built: &mut Built, corefile: Corefile) -> Result<(), Failure> {
    let mut waits = tokio::task::JoinSet::new();
    for wait in built.waits.drain(..) {
        waits.spawn(wait);
    }
    let mut errors = Vec::new();
    while let Some(done) = waits.join_next().await {
        errors.extend(done.ok().and_then(Result::err));
    }
    errors
        .sort_by_key(|one| one.place.as_ref().map(|place| (place.file.to_path_buf(), place.line)));
    if errors.is_empty() { Ok(()) } else { Err(Failure { errors, files: corefile.files }) }
}

impl Server<'_> {
    /// Reloads and stops as told; the exit code.
    async fn attend(&mut self, signals: &mut Signals) -> anyhow::Result<u8> {
        loop {
            let process = Arc::clone(&self.process);
            let told = tokio::select! {
                told = signals.next() => told,
                () = process.reload_asked() => {
                    self.reload().await;
                    continue;
                }
                message = process.fatal() => return Err(anyhow!("{message}")),
            };
            match told {
                Told::Reload => {
                    log::info!("SIGUSR1: Reloading");
                    self.reload().await;
                }
                Told::Quit => return Ok(0),
                Told::Interrupt => {
                    log::info!("SIGINT: Shutting down");
                    let code = if self.lame(signals).await { 2 } else { 0 };
                    self.process.close(CLOSING).await;
                    return Ok(code);
                }
                Told::Terminate => {
                    log::info!("SIGTERM: Shutting down servers then terminating");
                    if !self.lame(signals).await {
                        self.process.stopper().reach(Stage::Draining);
                        tokio::select! {
                            () = self.fronts.drain() => {}
                            told = signals.next() => log::info!("{told:?} while draining: ending at once"),
                        }
                    }
                    self.process.close(CLOSING).await;
                    return Ok(0);
                }
            }
        }
    }

    /// Serves on until plugins have done what they do at a shutdown, and for the lameduck time; true if a second signal cut it
    /// short.
    async fn lame(&self, signals: &mut Signals) -> bool {
        self.process.stopper().reach(Stage::LameDuck);
        tokio::select! {
            () = self.process.released() => {}
            _ = signals.next() => return true,
        }
        if self.lameduck.is_zero() {
            return false;
        }
        log::info!(target: "plugin/health", "Going into lameduck mode for {:?}", self.lameduck);
        tokio::select! {
            () = tokio::time::sleep(self.lameduck) => false,
            _ = signals.next() => true,
        }
    }

    /// Reads the configuration again and serves it if it is right; else the old one goes on.
    async fn reload(&mut self) {
        log::info!("Reloading");
        match self.replace().await {
            Ok(()) => {
                self.process.note_reload(true);
                log::info!("Reloading complete");
            }
            Err(wrong) => {
                self.process.note_reload(false);
                let Some(failure) = wrong.downcast_ref::<Failure>() else {
                    log::error!("Restart failed: {wrong:#}");
                    return;
                };
                // A line each: a log has no room for pictures.
                for one in &failure.errors {
                    let help = one.help.as_ref().map(|help| format!(" ({help})"));
                    log::error!("Restart failed: {one}{}", help.unwrap_or_default());
                }
            }
        }
    }

    /// The steps of a reload; whatever fails, the old configuration goes on whole.
    async fn replace(&mut self) -> anyhow::Result<()> {
        let (previous, common) = (self.gateway.live(), Arc::clone(self.gateway.common()));
        let (corefile, mut built) =
            build(self.source, self.port, &self.process, common, Some(previous))?;
        warn(&corefile, &built);
        ready(&mut built, corefile).await?;
        let bound = self.fronts.bind(built.live.groups())?;
        let opened = self.admin.bind(std::mem::take(&mut built.pages))?;
        for (_, task) in built.tasks() {
            tokio::spawn(task);
        }
        self.lameduck = built.lameduck;
        self.debug(built.debug);
        let old = self.gateway.reload(built.live);
        let gateway = Arc::clone(&self.gateway);
        self.fronts.start(bound, &gateway);
        self.fronts.retain(gateway.live().groups());
        self.admin.start(opened);
        // Freeing a large configuration takes time that no query should wait for.
        tokio::task::spawn_blocking(move || drop(old));
        Ok(())
    }

    /// Turns debug messages on or off.
    fn debug(&self, on: bool) {
        log::set_max_level(if on { LevelFilter::Debug } else { self.level });
    }
}

/// Reads and builds a configuration.
///
/// # Errors
/// All that is wrong.
fn build(
    source: &Source,
    port: u16,
    process: &Arc<Process>,
    common: Arc<engine::Common>,
    previous: Option<Arc<Live>>,
) -> Result<(Corefile, Built), Failure> {
    let corefile = corefile::load(source)?;
    let build = Build {
        plugins: plugins::CHAIN,
        transports: Fronts::TRANSPORTS,
        check_cluster: plugins::check_cluster,
        port,
        process: Arc::clone(process),
        common,
        origin: Arc::new(Origin { files: corefile.files.clone() }),
        previous,
    };
    match build.build(&corefile.blocks) {
        Ok(built) => Ok((corefile, built)),
        Err(errors) => Err(Failure { errors, files: corefile.files }),
    }
}

/// Logs what is odd about a configuration.
fn warn(corefile: &Corefile, built: &Built) {
    for one in corefile.warnings.iter().chain(&built.warnings) {
        // Behind the text, so that a line begins as a plugin's own does.
        let place = one.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        match one.what.strip_prefix("plugin/").and_then(|what| what.split_once(": ")) {
            Some((name, what)) => log::warn!(target: &format!("plugin/{name}"), "{what}{place}"),
            None => log::warn!("{}{place}", one.what),
        }
    }
}

/// The process as plugins see it.
fn process(settings: &Settings) -> Process {
    let version = banner::VERSION.to_owned();
    Process::new(settings.data_dir.clone(), version, settings.workers(), settings.grace)
        .built_from(banner::COMMIT)
}

/// The engine's limits.
fn limits(settings: &Settings) -> Limits {
    Limits { datagram: usize::from(settings.udp_payload_size), ..Limits::default() }
}

/// The front-ends' limits.
fn bounds(settings: &Settings) -> Bounds {
    Bounds {
        connections: settings.limits.tcp_connections,
        connections_per_client: settings.limits.tcp_connections_per_client,
        pipeline: settings.limits.tcp_queries,
        waiting: settings.limits.udp_waiting,
        ..Bounds::default()
    }
}

/// Has a caught panic be one line of the log instead of lines on standard error; `errors`' `stacktrace` shows its place.
fn note_panics(common: &Arc<engine::Common>) {
    let common = Arc::clone(common);
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let trace = std::backtrace::Backtrace::force_capture();
        log::debug!("panic at {place}");
        common.note_panic(format!("at {place}\n{trace}"));
    }));
}

/// Writes the process id; a failure is only logged.
fn write_pid(path: &Path) -> Option<PidFile> {
    match std::fs::write(path, format!("{}\n", std::process::id())) {
        Ok(()) => Some(PidFile(path.to_path_buf())),
        Err(error) => {
            log::error!("cannot write the process id to {}: {error}", path.display());
            None
        }
    }
}
