//! Starts a gateway that serves over all seven transports, in a network of its own, and runs a shell line there:
//! `edge [--blocks TEXT] [--cluster] LINE`. Prints what the line wrote and how many queries came over each transport, and ends
//! with a status that tells whether the line ended well. `--blocks` adds to the Corefile; in it `@TLS@`, `@NAME@` and `@CA@` are the
//! certificate, its name and its authority, and with `--cluster`, which starts an API server in the same network, `@KUBECONFIG@`
//! is that of a reader. See `tests::Edge`.

use std::process::ExitCode;

use tests::{Cluster, Edge, Namespace};

/// Runs the line.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for scripts")]
fn main() -> ExitCode {
    let (mut blocks, mut with_cluster, mut line) = (String::new(), false, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--blocks" => blocks = words.next().unwrap_or_default(),
            "--cluster" => with_cluster = true,
            _ => line = Some(word),
        }
    }
    let Some(line) = line else {
        eprintln!("edge: no shell line");
        return ExitCode::from(2);
    };
    let namespace = Namespace::new();
    let cluster = with_cluster.then(|| Cluster::within(&namespace, &[]));
    if let Some(cluster) = &cluster {
        let kubeconfig = cluster.kubeconfig("reader").display().to_string();
        blocks = blocks.replace("@KUBECONFIG@", &kubeconfig);
    }
    let edge = Edge::beside(&blocks, &namespace);
    let (good, output) = edge.attempt(&line);
    print!("{output}");
    for scheme in ["dns", "tls", "quic", "https", "https3", "grpc"] {
        println!("asked {scheme} {}", edge.asked(scheme));
    }
    if !good {
        eprintln!("--- the gateway:\n{}", edge.gateway.output());
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
