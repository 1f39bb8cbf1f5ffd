//! The table.

use std::time::Duration;

use tests::meddler::Fault;

use super::stage::{Stage, TOKEN};

/// How soon what happened meanwhile must be answered after the fault is over, unless a row says more.
const FRESH: f64 = 10.0;

/// The same of a fault that is found out by silence, while it lasts: a watch may be silent for three minutes, and the next one for half
/// of that.
const MINUTES: f64 = 330.0;

/// How long a fault lasts that nobody is to notice.
const WHILE: Duration = Duration::from_secs(8);

/// How many lines of trouble a fault may take.
const MOST: usize = 10;

/// What a row needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A proxy, and a token in the kubeconfig.
    Token,
    /// A proxy, and a program that gives the token.
    Program,
    /// A proxy, and a clock that can be moved.
    Clock,
    /// A proxy, and a folder of snapshots on a small disk of its own, which is full.
    Full,
    /// The same, to which nothing can be written.
    ReadOnly,
    /// The same, with a snapshot that is damaged.
    Damaged,
    /// The API server itself, for itself alone.
    Server,
}

impl Way {
    /// Whether snapshots are kept.
    pub(super) fn keeps(self) -> bool {
        matches!(self, Self::Full | Self::ReadOnly | Self::Damaged)
    }
}

/// What answers tell of a fault by EDE 3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing, however long it lasts: what is answered is up to date, or nobody can know that it is not.
    Never,
    /// Nothing in the first ten seconds; it is over before that, unless the machine is slow.
    NotYet,
    /// Nothing in the first ten seconds, and then for how long the cluster has not been heard of.
    Then,
}

/// A fault.
pub(super) struct Row {
    /// The layer.
    pub(super) area: &'static str,
    /// What happens.
    pub(super) name: &'static str,
    /// What it is done by.
    pub(super) way: Way,
    /// Does it.
    pub(super) inject: fn(&mut Stage<'_>),
    /// Takes it back.
    pub(super) mend: fn(&mut Stage<'_>),
    /// What the log says of it; nothing if it is to stay silent.
    pub(super) log: &'static str,
    /// How many lines of trouble the log may have while it lasts; none if it is to stay silent.
    pub(super) lines: usize,
    /// A metric with words of its labels, which is at least 1 while it lasts.
    pub(super) metric: &'static [&'static str],
    /// What answers tell of it.
    pub(super) told: Told,
    /// Whether what happens in the cluster is answered while it lasts, not only afterwards.
    pub(super) through: bool,
    /// How long it lasts at least.
    pub(super) lasts: Duration,
    /// What the log says when it is over, if it does.
    pub(super) healed: &'static str,
    /// How soon it must be over, in seconds.
    pub(super) within: f64,
    /// Whether it takes minutes to be found out, by its silence alone: tried where the environment has `FAULT_LONG`. What happens in
    /// the cluster is answered while it lasts.
    pub(super) long: bool,
}

/// The metric of a watch that fails.
const FAILING: &[&str] =
    &["causeway_kubernetes_watch_state", "kind=\"services\"", "state=\"failing\""];

/// The metric of a watch that goes on.
const WATCHING: &[&str] =
    &["causeway_kubernetes_watch_state", "kind=\"services\"", "state=\"watching\""];

/// What is said of a token that is refused: the server's own message, and the file.
const REFUSED: &str =
    "the credentials are not accepted (401 said by the proxy): token of the file /";

/// The metric of snapshots that could not be written or used.
const UNKEPT: &[&str] = &["causeway_kubernetes_snapshot_failures_total"];

/// The metric of requests that were answered with a status.
macro_rules! code {
    ($code:literal) => {
        &["coredns_kubernetes_rest_client_requests_total", concat!("code=\"", $code, "\"")]
    };
}

/// A row of a fault of the proxy.
const fn proxied(
    area: &'static str,
    name: &'static str,
    inject: fn(&mut Stage<'_>),
    log: &'static str,
    metric: &'static [&'static str],
    told: Told,
) -> Row {
    Row {
        area,
        name,
        way: Way::Token,
        inject,
        mend: |stage| stage.meddle(Fault::None),
        log,
        // A fault begins with a cut of all connections, which a request may be under way on.
        lines: if log.is_empty() { 1 } else { MOST },
        metric,
        told,
        through: false,
        lasts: Duration::ZERO,
        healed: "",
        within: FRESH,
        long: false,
    }
}

/// A row of a fault of the proxy that nobody is to notice: the log is silent, and what happens is answered meanwhile.
const fn unnoticed(area: &'static str, name: &'static str, inject: fn(&mut Stage<'_>)) -> Row {
    Row { through: true, ..proxied(area, name, inject, "", WATCHING, Told::Never) }
}

/// The table.
pub(super) const ROWS: &[Row] = &[
    proxied("connection", "refused", |s| s.meddle(Fault::Refuse), "refused", FAILING, Told::Then),
    proxied("connection", "reset", |s| s.meddle(Fault::Reset), "eset", FAILING, Told::Then),
    proxied(
        "connection",
        "accepted and silent",
        |s| s.meddle(Fault::Hang),
        "deadline has elapsed",
        FAILING,
        Told::Then,
    ),
    proxied(
        "connection",
        "request without an answer",
        |s| s.meddle(Fault::Swallow),
        "no answer within",
        FAILING,
        Told::Then,
    ),
    proxied(
        "connection",
        "half-open within a response",
        |s| s.meddle(Fault::HalfOpen),
        "fell silent",
        FAILING,
        Told::NotYet,
    ),
    unnoticed("connection", "slow drip", |s| s.meddle(Fault::Drip)),
    Row {
        through: false,
        lasts: WHILE,
        ..unnoticed("connection", "watches that tell nothing", |s| s.meddle(Fault::Mute))
    },
    Row {
        lines: MOST,
        healed: "the API server accepts watches and has told nothing for",
        within: MINUTES,
        long: true,
        ..proxied(
            "connection",
            "watches that tell nothing for minutes",
            |s| s.meddle(Fault::Mute),
            "",
            FAILING,
            Told::Then,
        )
    },
    proxied(
        "connection",
        "truncated chunk",
        |s| s.meddle(Fault::Truncate),
        "ended early",
        FAILING,
        Told::Then,
    ),
    proxied(
        "TLS",
        "expired certificate",
        |s| s.meddle(Fault::Expired),
        "xpired",
        FAILING,
        Told::Then,
    ),
    proxied(
        "TLS",
        "certificate of another CA",
        |s| s.meddle(Fault::Stranger),
        "certificate",
        FAILING,
        Told::Then,
    ),
    proxied(
        "TLS",
        "certificate for another name",
        |s| s.meddle(Fault::Misnamed),
        "not valid for name",
        FAILING,
        Told::Then,
    ),
    Row {
        mend: |s| s.meddler().demand(TOKEN),
        ..proxied(
            "auth",
            "401, the token is not accepted",
            |s| {
                s.meddler().demand("another");
                s.meddler().cut();
            },
            REFUSED,
            FAILING,
            Told::Then,
        )
    },
    Row {
        mend: |s| s.token("renewed"),
        ..proxied(
            "auth",
            "token has ended, a new one comes by file",
            |s| {
                s.meddler().demand("renewed");
                s.meddler().cut();
            },
            REFUSED,
            code!("401"),
            Told::Then,
        )
    },
    proxied(
        "auth",
        "403 of one kind",
        |s| s.meddle(Fault::Forbid("endpointslices")),
        "\"endpointslices\"",
        &["causeway_kubernetes_watch_state", "kind=\"endpointslices\"", "state=\"forbidden\""],
        Told::Then,
    ),
    proxied(
        "auth",
        "403 of everything",
        |s| s.meddle(Fault::Forbid("/api")),
        "forbidden: the verb",
        code!("403"),
        Told::Then,
    ),
    Row {
        way: Way::Program,
        mend: |s| {
            s.write("good", TOKEN);
            s.meddler().demand(TOKEN);
        },
        ..proxied(
            "auth",
            "exec plugin fails",
            |s| {
                s.remove("good");
                s.meddler().demand("another");
                s.meddler().cut();
            },
            "failed: exit",
            FAILING,
            Told::Then,
        )
    },
    proxied(
        "protocol",
        "429 with Retry-After",
        |s| s.meddle(Fault::Status(429, 1)),
        "429",
        code!("429"),
        Told::NotYet,
    ),
    proxied(
        "protocol",
        "500",
        |s| s.meddle(Fault::Status(500, 0)),
        "500",
        code!("500"),
        Told::Then,
    ),
    proxied(
        "protocol",
        "503",
        |s| s.meddle(Fault::Status(503, 0)),
        "503",
        code!("503"),
        Told::NotYet,
    ),
    Row {
        metric: code!("410"),
        ..unnoticed("protocol", "410 Gone for each watch", |s| s.meddle(Fault::Gone))
    },
    Row {
        through: false,
        lasts: WHILE,
        ..unnoticed("protocol", "watches that end at once", |s| s.meddle(Fault::EndAtOnce))
    },
    proxied(
        "protocol",
        "garbage in place of an event",
        |s| s.meddle(Fault::Garbage),
        "can not be read",
        FAILING,
        Told::NotYet,
    ),
    proxied(
        "protocol",
        "event of two GiB",
        |s| s.meddle(Fault::Oversized),
        "bytes",
        FAILING,
        Told::NotYet,
    ),
    proxied(
        "protocol",
        "page for people",
        |s| s.meddle(Fault::Page),
        "can not be read",
        FAILING,
        Told::Then,
    ),
    proxied(
        "protocol",
        "gzip garbage",
        |s| s.meddle(Fault::Gzip),
        "can not be read",
        FAILING,
        Told::NotYet,
    ),
    proxied("protocol", "not HTTP", |s| s.meddle(Fault::NotHttp), "HTTP", FAILING, Told::NotYet),
    unnoticed("data", "each event twice", |s| s.meddle(Fault::Twice)),
    Row {
        through: true,
        ..proxied(
            "data",
            "events once more, out of order",
            |s| {
                s.meddle(Fault::Late);
                s.stir();
            },
            "after",
            WATCHING,
            Told::Never,
        )
    },
    unnoticed("data", "kind change during a list", |s| {
        s.meddle(Fault::Drip);
        s.flip();
    }),
    Row {
        way: Way::Clock,
        mend: |_| {},
        ..unnoticed("time", "clock an hour ahead", |s| s.write("clock", "+3600s"))
    },
    Row {
        way: Way::Clock,
        mend: |_| {},
        ..unnoticed("time", "clock an hour back", |s| s.write("clock", "-3600s"))
    },
    Row {
        mend: |s| s.configure(),
        through: true,
        ..proxied(
            "disk",
            "beginning of a kubeconfig",
            |s| {
                let (begin, _) = s.config.split_once("cluster: c,").expect("it has a context");
                s.write("kubeconfig", begin);
                s.shake();
            },
            "the kubeconfig",
            WATCHING,
            Told::NotYet,
        )
    },
    Row {
        mend: |s| s.configure(),
        through: true,
        ..proxied(
            "disk",
            "kubeconfig removed",
            |s| {
                s.remove("kubeconfig");
                s.shake();
            },
            "the kubeconfig",
            WATCHING,
            Told::NotYet,
        )
    },
    Row {
        way: Way::Full,
        mend: |s| s.on_disk("rm fill"),
        lines: 1,
        through: true,
        healed: "is written again",
        ..proxied("disk", "folder of snapshots full", |_| {}, "No space left", UNKEPT, Told::Never)
    },
    Row {
        way: Way::ReadOnly,
        mend: |s| s.on_disk("mount -o remount,rw ."),
        lines: 1,
        through: true,
        healed: "is written again",
        ..proxied("disk", "folder of snapshots read-only", |_| {}, "Read-only", UNKEPT, Told::Never)
    },
    Row {
        way: Way::Damaged,
        mend: |_| {},
        lines: 1,
        through: true,
        ..proxied("disk", "snapshot damaged", |_| {}, "it is damaged", UNKEPT, Told::Never)
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().restart(),
        ..proxied(
            "process",
            "API server killed",
            |s| s.cluster().kill(),
            "refused",
            FAILING,
            Told::Then,
        )
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().resume(),
        through: false,
        lasts: WHILE,
        ..unnoticed("process", "API server stopped for a while", |s| s.cluster().pause())
    },
    Row {
        way: Way::Server,
        mend: |_| {},
        ..proxied("data", "restored etcd", |s| s.restore(), "older than", WATCHING, Told::NotYet)
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().restart(),
        ..proxied(
            "data",
            "history compacted while away",
            |s| {
                s.cluster().stop();
                s.cluster().restart();
                s.grow();
                s.cluster().compact();
                s.cluster().kill();
            },
            "refused",
            FAILING,
            Told::NotYet,
        )
    },
    Row {
        way: Way::Server,
        mend: |s| s.cluster().add_multicluster(),
        ..proxied(
            "data",
            "definition of ServiceImport removed",
            |s| {
                s.cluster().delete("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: serviceimports.multicluster.x-k8s.io}}");
            },
            "are not defined in the cluster",
            &["causeway_kubernetes_watch_state", "kind=\"serviceimports\"", "state=\"absent\""],
            Told::Never,
        )
    },
];
