//! The facts `root.*`.

use engine::testing::Bench;

#[test]
fn the_last_line_wins_and_a_missing_directory_only_warns() {
    let temp = std::env::temp_dir();
    let folder = temp.join(format!("root-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("h"), "203.0.113.7 h.example.org\n").unwrap();
    // `root.path`, `root.order`: it counts although it stands below.
    let corefile =
        format!("example.org {{\n hosts h\n root /nonexistent\n root {}\n}}\n", folder.display());
    let bench = Bench::new(crate::CHAIN, &corefile);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(bench.now("h.example.org"), "NOERROR aa rd | h.example.org. 3600 A 203.0.113.7");
    let warnings: Vec<_> = bench.built.warnings.iter().map(|one| &*one.what).collect();
    assert_eq!(warnings, ["plugin/root: Root path does not exist: /nonexistent"]);
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("root", "Wrong argument count"),
        ("root a b", "Wrong argument count"),
        ("root a {\n }", "takes no block"),
        ("root \"a\u{0}b\"", "Unable to access root path"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("example.org {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
