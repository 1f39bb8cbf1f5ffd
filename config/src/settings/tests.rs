//! Settings from their sources.

use super::*;

/// Reads settings from a file's text, variables and flags.
fn read(
    file: Option<&str>,
    env: &[(&str, &str)],
    flags: &[(&str, &str, &str)],
) -> Result<(Settings, Provenance), String> {
    let id = std::thread::current().id();
    let directory =
        std::env::temp_dir().join(format!("causeway-settings-{}-{id:?}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join("causeway.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).expect("a file");
    }
    let flags = Flags {
        config: None,
        set: flags
            .iter()
            .map(|(flag, key, value)| Flag {
                flag: (*flag).into(),
                key: (*key).into(),
                value: (*value).into(),
            })
            .collect(),
    };
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let settings = Settings::read(&flags, env, &[&directory.join("none.toml"), &path]);
    std::fs::remove_dir_all(&directory).expect("cleared");
    let shown = |text: String| text.replace(&directory.display().to_string(), "DIR");
    match settings {
        Ok((settings, mut provenance)) => {
            for source in provenance.from.values_mut() {
                *source = shown(std::mem::take(source));
            }
            Ok((settings, provenance))
        }
        Err(refused) => Err(shown(refused.to_string())),
    }
}

#[test]
fn defaults_stand_alone() {
    let (settings, provenance) = read(None, &[("HOME", "/x")], &[]).expect("defaults");
    assert_eq!(settings, Settings::default());
    assert_eq!(
        (settings.port, settings.udp_payload_size, provenance.file.clone()),
        (53, 1232, None),
        "cli.port"
    );
    assert_eq!(provenance.of("port"), "default");
    assert!(settings.workers() > 0);
    assert_eq!(settings.grace.as_secs(), 5, "core.timeouts");
    assert_eq!(Settings { worker_threads: 3, ..settings }.workers(), 3);
}

#[test]
fn flags_win_over_variables_over_the_file() {
    let file = "port = 1\nlog_format = \"json\"\nquiet = true\ngrace = \"1m30s\"\n[limits]\ntcp_queries = 5\nudp_waiting = 6\n";
    let env = [
        ("CAUSEWAY_PORT", "2"),
        ("CAUSEWAY_LOG_LEVEL", "debug"),
        ("CAUSEWAY_LIMITS_TCP_QUERIES", "7"),
    ];
    let flags = [
        ("-p", "port", "3"),
        ("-dns.port", "port", "4"),
        ("-conf", "corefile", "stdin"),
        ("-quiet", "quiet", "false"),
    ];
    let (settings, provenance) = read(Some(file), &env, &flags).expect("settings");
    let expected = Settings {
        corefile: Some("stdin".into()),
        port: 4,
        log_format: LogFormat::Json,
        log_level: LogLevel::Debug,
        grace: Duration::from_secs(90),
        limits: Limits { tcp_queries: 7, udp_waiting: 6, ..Limits::default() },
        ..Settings::default()
    };
    assert_eq!(settings, expected);
    for (key, source) in [
        ("port", "-dns.port"),
        ("log_format", "DIR/causeway.toml"),
        ("log_level", "CAUSEWAY_LOG_LEVEL"),
        ("quiet", "-quiet"),
        ("limits.tcp_queries", "CAUSEWAY_LIMITS_TCP_QUERIES"),
        ("limits.udp_waiting", "DIR/causeway.toml"),
        ("data_dir", "default"),
    ] {
        assert_eq!(provenance.of(key), source, "{key}");
    }
    assert!(provenance.file.is_some());
    let table = table(&settings, &provenance);
    assert!(
        table.contains("port                               4                  -dns.port\n"),
        "{table}"
    );
    assert_eq!(table.lines().count(), ROWS.len());
}

#[test]
fn wrong_settings_name_source_key_and_right_values() {
    for (file, env, flags, expected) in [
        (
            "port = 70000",
            "",
            "",
            "DIR/causeway.toml: port cannot be 70000 (write a port from 0 to 65535)",
        ),
        (
            "port = -1",
            "",
            "",
            "DIR/causeway.toml: port cannot be -1 (write a port from 0 to 65535)",
        ),
        (
            "port = 5.5",
            "",
            "",
            "DIR/causeway.toml: port cannot be 5.5 (write a port from 0 to 65535)",
        ),
        (
            "port = [1]",
            "",
            "",
            "DIR/causeway.toml: port cannot be a list (write a port from 0 to 65535)",
        ),
        (
            "udp_payload_size = 511",
            "",
            "",
            "DIR/causeway.toml: udp_payload_size cannot be 511 (write a number of octets from 512 to 65535)",
        ),
        (
            "log_format = 'jsn'",
            "",
            "",
            "DIR/causeway.toml: log_format cannot be 'jsn', did you mean 'json'? (write text or json)",
        ),
        ("quiet = 'yes'", "", "", "DIR/causeway.toml: quiet cannot be 'yes' (write true or false)"),
        (
            "grace = 5",
            "",
            "",
            "DIR/causeway.toml: grace cannot be 5 (write a duration such as 5s or 1m)",
        ),
        (
            "grace = '5'",
            "",
            "",
            "DIR/causeway.toml: grace cannot be '5': a duration needs a unit, such as 30s or 5m (write a duration such as 5s or 1m)",
        ),
        ("data_dir = ''", "", "", "DIR/causeway.toml: data_dir cannot be '' (write a path)"),
        ("prot = 1", "", "", "DIR/causeway.toml: prot is no setting (did you mean port?)"),
        (
            "[limits]\ntcp_conections = 1",
            "",
            "",
            "DIR/causeway.toml: limits.tcp_conections is no setting (did you mean limits.tcp_connections?)",
        ),
        (
            "[limits]\ntcp_queries = 0",
            "",
            "",
            "DIR/causeway.toml: limits.tcp_queries cannot be 0 (write a number from 1 to 65535)",
        ),
        (
            "'limits.tcp_queries' = 1",
            "",
            "",
            "DIR/causeway.toml: \"limits.tcp_queries\" is no setting (did you mean limits.tcp_queries?)",
        ),
        (
            "",
            "CAUSEWAY_LOG_LEVL=info",
            "",
            "environment: CAUSEWAY_LOG_LEVL is no setting (did you mean CAUSEWAY_LOG_LEVEL?)",
        ),
        (
            "",
            "CAUSEWAY_PORT=x",
            "",
            "CAUSEWAY_PORT: port cannot be 'x' (write a port from 0 to 65535)",
        ),
        (
            "",
            "CAUSEWAY_PORT=",
            "",
            "CAUSEWAY_PORT: port cannot be '' (write a port from 0 to 65535)",
        ),
        ("", "", "port=x", "-flag: port cannot be 'x' (write a port from 0 to 65535)"),
        ("", "", "prot=1", "-flag: prot is no setting (did you mean port?)"),
        (
            "port = 99999\nquiet = 1",
            "",
            "",
            "DIR/causeway.toml: port cannot be 99999 (write a port from 0 to 65535)\n\
            DIR/causeway.toml: quiet cannot be 1 (write true or false)",
        ),
    ] {
        let env: Vec<_> = env.split_once('=').into_iter().collect();
        let flags: Vec<_> =
            flags.split_once('=').map(|(key, value)| ("-flag", key, value)).into_iter().collect();
        let text = read(Some(file), &env, &flags).expect_err(expected);
        assert_eq!(text, expected);
    }
    let text = read(Some("limits = 3\nzzz = {}"), &[], &[]).expect_err("no table");
    assert!(
        text.starts_with("DIR/causeway.toml: limits is no setting (known: corefile, port, "),
        "{text}"
    );
    assert!(text.contains("\nDIR/causeway.toml: zzz is no setting"), "{text}");
    assert!(read(Some("[limits]\n"), &[], &[]).is_ok());
    let text = read(Some("port =\n"), &[], &[]).expect_err("no TOML");
    assert!(
        text.starts_with("DIR/causeway.toml: is no TOML: ") && text.contains("line 1"),
        "{text}"
    );
}

#[test]
fn a_named_file_must_be_there() {
    let named = Flags { config: Some("/nonexistent/causeway.toml".into()), set: Vec::new() };
    let refused = Settings::read(&named, std::iter::empty(), &[]).expect_err("no file");
    assert!(
        refused.to_string().starts_with("/nonexistent/causeway.toml: cannot be read: "),
        "{refused}"
    );
    let variable = ("CAUSEWAY_CONFIG".to_owned(), "/nonexistent/other.toml".to_owned());
    let refused =
        Settings::read(&Flags::default(), [variable].into_iter(), &[]).expect_err("no file");
    assert!(
        refused.to_string().starts_with("/nonexistent/other.toml: cannot be read: "),
        "{refused}"
    );
    assert!(
        Settings::read(&Flags::default(), std::iter::empty(), &[Path::new("/nonexistent/x")])
            .is_ok()
    );
}

#[test]
fn variables_of_a_kubernetes_service_are_not_settings() {
    let env = [
        ("CAUSEWAY_SERVICE_HOST", "198.51.100.1"),
        ("CAUSEWAY_SERVICE_PORT", "53"),
        ("CAUSEWAY_SERVICE_PORT_DNS", "53"),
        ("CAUSEWAY_PORT", "udp://198.51.100.1:53"),
        ("CAUSEWAY_PORT_53_UDP_ADDR", "198.51.100.1"),
    ];
    assert_eq!(read(None, &env, &[]).map(|(settings, _)| settings), Ok(Settings::default()));
}

#[test]
fn what_is_shown_can_be_read() {
    for row in ROWS {
        let text = row.default_text();
        if text.is_empty() {
            continue;
        }
        let (settings, _) = read(None, &[(&row.variable(), &text)], &[]).expect(row.key);
        assert_eq!(settings, Settings::default(), "{}", row.key);
    }
    let (settings, provenance) =
        read(None, &[("CAUSEWAY_GRACE", "1h0m0.25s")], &[]).expect("a duration");
    assert!(table(&settings, &provenance).contains("3600.25s"));
}

#[test]
fn the_documentation_lists_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    let text = std::fs::read_to_string(path).expect("docs/settings.md");
    let documented: Vec<_> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<_> = ROWS
        .iter()
        .map(|row| {
            let default = row.default_text();
            let default =
                if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
            format!(
                "| `{}` | `{}` | {default} | {} | {} |",
                row.key,
                row.variable(),
                row.words,
                row.what
            )
        })
        .collect();
    assert_eq!(
        documented,
        expected,
        "docs/settings.md should have these lines:\n{}",
        expected.join("\n")
    );
}
