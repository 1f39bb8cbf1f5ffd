//! Amazon's APIs on a loopback address: moto, and Amazon's own library to fill them with.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::edge::tools;
use crate::process::{Process, free_port, repository, run, until};

/// How long its start may take.
const START: Duration = Duration::from_secs(60);

/// A running server of Amazon's APIs; stopped when this value goes.
#[derive(Debug)]
pub struct Moto {
    /// The program, unless it was stopped.
    process: Option<Process>,
    /// Where it is asked.
    port: u16,
}

impl Moto {
    /// Starts one that has nothing yet, and waits until it can be asked.
    pub fn start() -> Self {
        let mut moto = Self { process: None, port: free_port() };
        moto.resume();
        moto
    }

    /// Starts it again after [`Moto::pause`], at the same address; what it had is gone.
    pub fn resume(&mut self) {
        let program = tools().join("moto/bin/moto_server");
        assert!(program.exists(), "moto is missing: run tests/clients/setup");
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &self.port.to_string()]).stdin(Stdio::null());
        let mut process = Process::start("moto", command);
        let up = until(START, || {
            if !process.running() {
                return Some(false);
            }
            process.ports().contains(&self.port).then_some(true)
        });
        assert_eq!(up, Some(true), "moto does not start:\n{}", process.output());
        self.process = Some(process);
    }

    /// Stops it: nobody can be reached there.
    pub fn pause(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Its address: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Does something as an administrator does it: the words of `tests/clients/aws/admin.py`. Gives what that prints.
    pub fn admin(&self, words: &[&str]) -> String {
        let mut command = Command::new(tools().join("moto/bin/python"));
        command
            .arg(repository().join("tests/clients/aws/admin.py"))
            .args(words)
            .env("AWS_ENDPOINT_URL", self.url())
            .env("AWS_ACCESS_KEY_ID", "admin")
            .env("AWS_SECRET_ACCESS_KEY", "admin")
            .env("AWS_DEFAULT_REGION", "us-east-1");
        run(&mut command).trim().to_owned()
    }

    /// All that it wrote so far.
    pub fn output(&self) -> String {
        self.process.as_ref().map(Process::output).unwrap_or_default()
    }
}
