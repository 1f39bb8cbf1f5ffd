//! The program as a whole: its command line, its signals, what it says, and what of its sockets shows from outside.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use rustix::process::Signal;
use tests::client::{Query, Stream};
use tests::gateway::binary;
use tests::{Folder, Gateway, Process, free_port, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The program, to be run in a folder.
fn program(folder: &Path) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs the program with these words to its end.
fn run(words: &[&str]) -> Output {
    let folder = Folder::new("words");
    program(folder.path()).args(words).output().unwrap()
}

/// What it writes: on standard output and on standard error.
fn written(done: &Output) -> (String, String) {
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
    (text(&done.stdout), text(&done.stderr))
}

/// An address on loopback.
fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Starts the program and waits until it answers at a port.
fn serving(mut command: Command, port: u16) -> Process {
    command.stdin(Stdio::null());
    let process = Process::start("causeway", command);
    let up = until(LIMIT, || Query::from("a.test A").ask(loopback(port)));
    up.unwrap_or_else(|| panic!("{}", process.output()));
    process
}

#[test]
fn version_and_plugins_are_told() {
    let done = run(&["-version"]);
    let (out, err) = written(&done);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((done.status.code(), lines.len(), &*err), (Some(0), 2, ""), "{out}");
    assert!(lines[0].starts_with("Causeway-"), "{out}");
    let platform = format!("{}/{}, rust", std::env::consts::OS, std::env::consts::ARCH);
    assert!(lines[1].starts_with(&platform) && lines[1].split(", ").count() == 3, "{out}");

    let done = run(&["-plugins"]);
    let (out, _) = written(&done);
    let mut names: Vec<_> = out.lines().collect();
    assert_eq!(done.status.code(), Some(0));
    // `on` is no link of the chain, and stands at the end.
    if names.contains(&"on") {
        assert_eq!(names.pop(), Some("on"));
    }
    assert!(names.is_sorted() && names.contains(&"forward"), "{out}");
    // Words of the Corefile's grammar are no plugins.
    assert!(!names.contains(&"import"), "{out}");
}

#[test]
fn a_wrong_command_line_is_refused() {
    for (words, code, want) in [
        (&["-nope"][..], 2, "flag provided but not defined: -nope"),
        (&["-conf"], 2, "flag needs an argument: -conf"),
        (&["-windows-service"], 2, "flag provided but not defined: -windows-service"),
        (&["one", "two"], 1, "extra command line arguments: [one two]"),
    ] {
        let done = run(words);
        let (out, err) = written(&done);
        assert_eq!((done.status.code(), &*out), (Some(code), ""), "{words:?}: {err}");
        assert!(err.contains(want), "{words:?}: {err}");
        assert_eq!(err.contains("-dns.port PORT"), code == 2, "{words:?}: the usage");
    }
    let (out, _) = written(&run(&["-h"]));
    assert!(out.contains("-dns.port PORT"), "{out}");
}

#[test]
fn a_corefile_comes_by_name_by_pipe_or_from_here() {
    let (folder, port) = (Folder::new("corefiles"), free_port());
    let text = |name: &str| format!("{name}.test:{port} {{\n whoami\n}}\n");
    folder.write("named", text("named"));
    let rcode =
        |name: &str| Query::from(&*format!("x.{name}.test A")).ask(loopback(port)).unwrap().rcode();
    // None at all: whoami at the port of the flags.
    let mut command = program(folder.path());
    command.args(["-dns.port", &port.to_string()]);
    let process = serving(command, port);
    assert_eq!(rcode("any"), ResponseCode::NoError);
    process.line("\"A IN x.any.test. udp", LIMIT);
    drop(process);
    // The one in the working directory.
    folder.write("Corefile", text("here"));
    let process = serving(program(folder.path()), port);
    assert_eq!((rcode("here"), rcode("named")), (ResponseCode::NoError, ResponseCode::Refused));
    drop(process);
    // By name, with one or two dashes.
    for flag in ["-conf=named", "--conf=named"] {
        let mut command = program(folder.path());
        command.arg(flag);
        let process = serving(command, port);
        assert_eq!((rcode("here"), rcode("named")), (ResponseCode::Refused, ResponseCode::NoError));
        drop(process);
    }
    // One that is not there.
    let done = program(folder.path()).args(["-conf", "missing"]).output().unwrap();
    let (_, err) = written(&done);
    assert_eq!(done.status.code(), Some(1));
    assert!(err.contains("missing cannot be read: "), "{err}");
}

#[test]
fn a_corefile_from_a_pipe_stays() {
    let (folder, port) = (Folder::new("pipe"), free_port());
    let mut command = program(folder.path());
    command.args(["-conf", "stdin"]).stdin(Stdio::piped());
    let mut process = Process::start("causeway", command);
    let corefile = format!(
        "pipe.test:{port} {{\n reload 2s 0\n hosts {{\n 203.0.113.1 a.pipe.test\n }}\n}}\n"
    );
    process.take_stdin().unwrap().write_all(corefile.as_bytes()).unwrap();
    let good = || {
        let reply = Query::from("a.pipe.test A").ask(loopback(port))?;
        (reply.addresses() == [Ipv4Addr::new(203, 0, 113, 1)]).then_some(())
    };
    until(LIMIT, good).unwrap_or_else(|| panic!("{}", process.output()));
    process.line("a Corefile from a pipe cannot be read again", LIMIT);
    process.signal(Signal::USR1);
    process.line("SIGUSR1: Reloading", LIMIT);
    std::thread::sleep(Duration::from_secs(3));
    good().unwrap_or_else(|| panic!("{}", process.output()));
}

#[test]
fn the_port_of_the_command_line_is_for_keys_without_one() {
    let folder = Folder::new("ports");
    let (default, other) = (free_port(), free_port());
    folder.write("Corefile", format!("a.test dns://b.test c.test:{other} {{\n whoami\n}}\n"));
    for flag in ["-dns.port", "-p"] {
        let mut command = program(folder.path());
        command.args([flag, &default.to_string()]);
        let process = serving(command, default);
        for (name, port) in [("a.test", default), ("b.test", default), ("c.test", other)] {
            for (at, want) in
                [(port, ResponseCode::NoError), (default + other - port, ResponseCode::Refused)]
            {
                let reply = Query::from(&*format!("{name} A")).ask(loopback(at)).unwrap();
                assert_eq!(reply.rcode(), want, "{flag}: {name} at {at}");
            }
        }
        drop(process);
    }
}

#[test]
fn the_process_id_is_there_while_it_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, port) = (Folder::new("pid"), free_port());
    folder.write("Corefile", format!(".:{port} {{\n whoami\n}}\n"));
    let file = folder.path().join("pid");
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut command = program(folder.path());
        command.args(["-pidfile", "pid"]);
        let mut process = serving(command, port);
        let text =
            until(LIMIT, || std::fs::read_to_string(&file).ok().filter(|text| !text.is_empty()));
        assert_eq!(text, Some(format!("{}\n", process.id())));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o133, 0, "readable, and written by its owner alone: {mode:o}");
        process.signal(signal);
        assert_eq!(process.wait(LIMIT).and_then(|status| status.code()), Some(0), "{signal:?}");
        assert!(!file.exists(), "{signal:?}");
    }
    // One that cannot be written is only spoken of.
    let mut command = program(folder.path());
    command.args(["-pidfile", "none/pid"]);
    let process = serving(command, port);
    assert!(process.line("none/pid", LIMIT).starts_with("[ERROR] "));
}

#[test]
fn what_is_served_is_said_at_the_start() {
    let (folder, port) = (Folder::new("banner"), free_port());
    let corefile = format!(
        "b.test:{port} a.test:{port} {{\n whoami\n}}\n_x.test:{port} {{\n whoami\n}}\n\
         grpc://c.test:{0} {{\n bind 127.0.0.1\n whoami\n}}\n",
        free_port()
    );
    let text = folder.write("Corefile", corefile);
    let grpc = std::fs::read_to_string(text).unwrap();
    let grpc = grpc.split("c.test:").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let process = serving(program(folder.path()), port);
    process.line("Causeway-", LIMIT);
    let lines: Vec<_> = process.output().lines().map(str::to_owned).collect();
    let lines: Vec<_> =
        lines.iter().map(String::as_str).filter(|line| !line.starts_with('[')).collect();
    let underscore =
        "Warning: Domain \"_x.test.\" does not follow RFC1035 preferred syntax".to_owned();
    let mut own = vec![
        underscore,
        format!("_x.test.:{port}"),
        format!("a.test.:{port}"),
        format!("b.test.:{port}"),
    ];
    own.push(format!("grpc://c.test.:{grpc} on 127.0.0.1"));
    for line in &own {
        assert!(lines.contains(&&**line), "{line}: {lines:#?}");
    }
    let at = |line: &str| lines.iter().position(|one| *one == line);
    assert!(at(&own[1]) < at(&own[2]) && at(&own[2]) < at(&own[3]), "{lines:#?}");
    assert_eq!(lines.len(), own.len() + 2, "and two lines with the version: {lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("maxprocs")), "{lines:#?}");
    let before = process.output();
    process.signal(Signal::USR1);
    process.line("Reloading complete", LIMIT);
    assert!(!process.output()[before.len()..].contains("a.test"), "a reload says nothing of it");
    drop(process);
    let mut command = program(folder.path());
    command.arg("-quiet");
    let process = serving(command, port);
    let spoken: Vec<_> =
        process.output().lines().filter(|line| !line.starts_with('[')).map(str::to_owned).collect();
    assert_eq!(spoken, [""; 0]);
}

#[test]
fn what_keeps_it_from_starting_is_said_and_fails() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    for (corefile, want) in [
        (
            ".:@PORT@ {\n nonsense\n}\n".to_owned(),
            "Corefile:2 - Error during parsing: Unknown directive 'nonsense'",
        ),
        (
            ".:@PORT@ {\n whoami x\n}\n".to_owned(),
            "plugin/whoami: Corefile:2 - Error during parsing: Wrong argument count",
        ),
        (".:@PORT@ {\n whoami\n".to_owned(), "Unexpected EOF"),
        (format!(".:@PORT@ {{\n health 127.0.0.1:{port}\n}}\n"), "ddress already in use"),
        (format!(".:{port} {{\n bind 127.0.0.1\n whoami\n}}\n"), "ddress already in use"),
        (
            ".:@PORT@ {\n bind 198.51.100.77\n whoami\n}\n".to_owned(),
            "annot assign requested address",
        ),
    ] {
        let folder = Folder::new("wrong");
        folder.write("Corefile", corefile.replace("@PORT@", &free_port().to_string()));
        let done = program(folder.path()).args(["-pidfile", "pid"]).output().unwrap();
        let (out, err) = written(&done);
        assert_eq!(done.status.code(), Some(1), "{corefile}: {err}");
        assert!(err.contains(want), "{corefile}: {err}");
        // The error is on standard error, and nothing was begun.
        assert!(!out.contains(want) && !folder.path().join("pid").exists(), "{corefile}: {out}");
    }
}

#[test]
fn signals_do_what_coredns_does() {
    let mut gateway = Gateway::new(".:@PORT@ {\n reload 2s 0\n template IN TXT {\n answer \"{{ .Name }} 1 IN TXT one\"\n }\n}\n").start();
    let is = |gateway: &Gateway, word: &str| {
        let want = format!("x.test. 1 IN TXT {word}");
        gateway.ask_until("x.test TXT", LIMIT, |reply| reply.answers() == [want.clone()]);
    };
    let corefile = |word: &str| {
        format!(
            ".:@PORT@ {{\n reload 2s 0\n template IN TXT {{\n answer \"{{{{ .Name }}}} 1 IN TXT {word}\"\n }}\n}}\n"
        )
    };
    is(&gateway, "one");
    // SIGHUP does nothing, SIGUSR2 only says so.
    gateway.signal(Signal::HUP);
    gateway.signal(Signal::USR2);
    gateway.line("SIGUSR2: ");
    is(&gateway, "one");
    assert!(gateway.process().running());
    // SIGUSR1 reads the Corefile again, and the watch over it goes on.
    gateway.write("Corefile", &corefile("two"));
    gateway.reload();
    gateway.line("[INFO] SIGUSR1: Reloading");
    gateway.line("[INFO] Reloading complete");
    is(&gateway, "two");
    gateway.write("Corefile", &corefile("three"));
    is(&gateway, "three");
    assert!(!gateway.output().contains("[ERROR]"), "{}", gateway.output());
}

#[test]
fn signals_that_end_it_leave_their_code() {
    let lingering = ".:@PORT@ {\n health 127.0.0.1:@PORT:health@ {\n lameduck 1s\n }\n whoami\n}\n";
    for (signal, line, lingers) in [
        (Signal::TERM, Some("[INFO] SIGTERM: Shutting down servers then terminating"), true),
        (Signal::INT, Some("[INFO] SIGINT: Shutting down"), true),
        (Signal::QUIT, None, false),
    ] {
        let mut gateway = Gateway::new(lingering).start();
        gateway.signal(signal);
        if let Some(line) = line {
            gateway.line(line);
            assert_eq!(gateway.ask("a.test A").rcode(), ResponseCode::NoError, "{signal:?}");
            gateway.line("Going into lameduck mode for 1s");
        }
        let ended = gateway.process().wait(LIMIT).and_then(|status| status.code());
        assert_eq!(ended, Some(0), "{signal:?}");
        assert_eq!(gateway.output().contains("lameduck"), lingers, "{signal:?}");
    }
    // A second SIGINT does not wait.
    let mut gateway = Gateway::new(&lingering.replace("1s", "60s")).start();
    gateway.signal(Signal::INT);
    gateway.line("Going into lameduck mode");
    gateway.signal(Signal::INT);
    assert_eq!(gateway.process().wait(LIMIT).and_then(|status| status.code()), Some(2));
}

#[test]
fn a_root_is_relative_to_the_directory_of_the_process() {
    let (folder, port) = (Folder::new("root"), free_port());
    folder.write("etc/Corefile", format!(".:{port} {{\n root zones\n hosts names\n}}\n"));
    folder.write("zones/names", "203.0.113.1 a.test\n");
    folder.write("etc/zones/names", "203.0.113.2 a.test\n");
    let mut command = program(folder.path());
    command.args(["-conf", "etc/Corefile"]);
    let _process = serving(command, port);
    let reply = Query::from("a.test A").ask(loopback(port)).unwrap();
    assert_eq!(reply.addresses(), [Ipv4Addr::new(203, 0, 113, 1)]);
}

#[test]
fn a_query_may_be_larger_than_512_octets() {
    let gateway = Gateway::new(".:@PORT@ {\n whoami\n}\n").start();
    for size in [500, 1000, 4000] {
        let reply =
            gateway.ask(Query::from("a.test A").bufsize(1232).option(65_001, &vec![7; size]));
        assert_eq!(reply.rcode(), ResponseCode::NoError, "{size}");
    }
}

#[test]
fn what_no_block_sees_is_not_counted() {
    let gateway =
        Gateway::new(".:@PORT@ {\n prometheus 127.0.0.1:@PORT:metrics@\n whoami\n}\n").start();
    let counted = || -> f64 {
        let samples = gateway.metrics("metrics");
        samples
            .iter()
            .filter(|(key, _)| key.starts_with("coredns_dns_requests_total"))
            .map(|(_, value)| value)
            .sum()
    };
    gateway.ask("a.test A");
    until(LIMIT, || (counted() == 1.0).then_some(())).unwrap();
    // BADVERS is said before any block is looked for, as are replies to what cannot be read.
    let version = Query::from("a.test A").bufsize(1232).with(|message| {
        message.edns.get_or_insert_default().set_version(1);
    });
    assert_eq!(u16::from(gateway.ask(version).rcode()), 16);
    assert_eq!(counted(), 1.0);
    gateway.ask("a.test A");
    until(LIMIT, || (counted() == 2.0).then_some(())).unwrap();
}

#[test]
fn ports_are_shared_with_another_process() {
    let corefile = ".:@PORT@ {\n bind 127.0.0.1\n whoami\n}\n";
    let first = Gateway::new(corefile).start();
    let port = first.address().port();
    let folder = Folder::new("second");
    folder.write("Corefile", corefile.replace("@PORT@", &port.to_string()));
    let second = Process::start("second", program(folder.path()));
    second.line("Causeway-", LIMIT);
    assert!(second.ports().contains(&port));
    drop(first);
    for query in [Query::from("a.test A"), Query::from("a.test A").tcp()] {
        let reply = until(LIMIT, || query.ask(loopback(port)));
        assert_eq!(reply.unwrap().rcode(), ResponseCode::NoError);
    }
}

#[test]
fn nothing_is_said_to_systemd_and_nothing_taken_from_it() {
    let (folder, port) = (Folder::new("systemd"), free_port());
    folder.write("Corefile", format!(".:{port} {{\n whoami\n}}\n"));
    let path = folder.path().join("notify");
    let notify = UnixDatagram::bind(&path).unwrap();
    notify.set_nonblocking(true).unwrap();
    let mut command = program(folder.path());
    command.env("NOTIFY_SOCKET", &path).env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    let mut process = serving(command, port);
    assert!(process.stop(LIMIT).success());
    assert!(notify.recv(&mut [0; 512]).is_err());
}

#[test]
fn debug_is_on_until_a_reload_without_it() {
    // A query that is passed over is told only where debug messages are wanted.
    let corefile = |debug: &str| {
        format!(
            ".:@PORT@ {{\n {debug}\n tsig {{\n secret a. AAAA\n require all\n }}\n whoami\n}}\nb.test:@PORT:b@ {{\n whoami\n}}\n"
        )
    };
    let mut gateway = Gateway::new(&corefile("debug")).start();
    let told = |gateway: &Gateway| {
        let before = gateway.output().matches("[DEBUG] plugin/tsig: ").count();
        gateway.ask("a.test A");
        std::thread::sleep(Duration::from_millis(200));
        gateway.output().matches("[DEBUG] plugin/tsig: ").count() - before
    };
    // One block has it, which is enough.
    assert_eq!(told(&gateway), 1);
    gateway.write("Corefile", &corefile(""));
    gateway.reload();
    gateway.line("Reloading complete");
    assert_eq!(told(&gateway), 0);
}

#[test]
fn as_many_sockets_are_open_as_are_stated() {
    for (line, want) in [("multisocket 3", 3), ("multisocket 1", 1)] {
        let gateway =
            Gateway::new(&format!(".:@PORT@ {{\n bind 127.0.0.1\n {line}\n whoami\n}}\n")).start();
        let local = format!("0100007F:{:04X}", gateway.address().port());
        for table in ["udp", "tcp"] {
            let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap();
            // Listening sockets and unconnected ones have no other side.
            let other = "00000000:0000";
            let open =
                text.lines().filter(|row| row.contains(&local) && row.contains(other)).count();
            assert_eq!(open, want, "{line}, {table}");
        }
    }
}

#[test]
fn a_connection_has_as_many_queries_as_are_stated() {
    let gateway =
        Gateway::new(".:@PORT@ {\n timeouts {\n maxtcpqueries 3\n }\n whoami\n}\n").start();
    let mut stream = Stream::open(gateway.address(), None).unwrap();
    let mut ids = BTreeSet::new();
    for number in 0..3 {
        let query = Query::from(&*format!("n{number}.test A"));
        stream.send(&query);
        ids.insert(stream.receive(LIMIT).unwrap().message.queries[0].name().to_string());
    }
    assert_eq!(ids.len(), 3);
    assert!(stream.closed_within(LIMIT));
    // Datagrams are not counted.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.connect(gateway.address()).unwrap();
    for _ in 0..5 {
        socket.send(&Query::from("a.test A").encode()).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
}
