//! The facts `bufsize.*`.

use engine::testing::Bench;

#[test]
fn it_lowers_what_the_query_states_and_never_raises_it() {
    for (line, query, want) in [
        ("bufsize", "a.test +bufsize=4096", 1232),
        ("bufsize 1100", "a.test +bufsize=4096", 1100),
        ("bufsize 4096", "a.test +bufsize=1000", 1000),
        ("bufsize 512", "a.test +do", 512),
        ("bufsize 512", "a.test +tcp +do", 512),
    ] {
        let bench = Bench::new(crate::CHAIN, &format!("test {{\n {line}\n whoami\n}}\n"));
        let mut x = bench.exchange(query);
        bench.serve(&mut x);
        assert!(x.request().edns.present);
        assert_eq!(x.request().edns.size, want, "{line}, {query}");
        let limit = if query.contains("+tcp") { 65535 } else { usize::from(want) };
        assert_eq!(x.limit(4096), limit, "{line}, {query}");
    }
    // `bufsize.none`
    let bench = Bench::new(crate::CHAIN, "test {\n bufsize 4096\n whoami\n}\n");
    let mut x = bench.exchange("a.test");
    bench.serve(&mut x);
    assert!(!x.request().edns.present);
    assert_eq!(x.limit(4096), 512);
}

#[test]
fn wrong_lines_are_refused_and_further_ones_warned_of() {
    for (line, want) in [
        ("bufsize abc", "write 512 to 4096 octets"),
        ("bufsize 511", "is no size of a datagram"),
        ("bufsize 4097", "is no size of a datagram"),
        ("bufsize -1", "is no size of a datagram"),
        ("bufsize 512 1024", "Wrong argument count"),
        ("bufsize {\n }", "takes no block"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
    let bench = Bench::new(crate::CHAIN, "test {\n bufsize 600\n bufsize 700\n whoami\n}\n");
    let mut x = bench.exchange("a.test +edns");
    bench.serve(&mut x);
    assert_eq!(x.request().edns.size, 600);
    assert!(bench.built.warnings[0].what.contains("only the first one"));
}
