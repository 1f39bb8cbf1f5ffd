//! The facts `pprof.*`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::pprof::protos::{Message, Profile};
use engine::Descriptor;
use engine::admin::{Ask, Told};
use engine::testing::Bench;

use crate::shared::testing::ANSWERS;

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&super::PLUGIN, &ANSWERS];

/// What a page says, waiting if it takes time.
async fn page(bench: &Bench, path: &str, query: Option<&str>) -> Told {
    let page = bench.built.pages.iter().find(|page| path.starts_with(&page.path)).unwrap();
    let ask = Ask { method: "GET", path, query, ..Ask::default() };
    match page.handler.later(ask) {
        Some(later) => later.await,
        None => page.handler.handle(ask),
    }
}

/// The names in a profile.
fn names(told: &Told) -> Vec<String> {
    assert_eq!(told.status, 200, "{}", String::from_utf8_lossy(&told.body));
    let profile = Profile::parse_from_bytes(&told.body).unwrap();
    assert!(!profile.sample.is_empty());
    profile.function.iter().map(|one| profile.string_table[one.name as usize].clone()).collect()
}

/// Keeps the processor busy until told to stop.
#[inline(never)]
fn spin_for_the_profile(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Ordering::Relaxed) {
        sum = (0..20_000u64).fold(sum, |sum, n| std::hint::black_box(sum.wrapping_mul(31) ^ n));
    }
    sum
}

#[tokio::test]
async fn pages_say_what_there_is() {
    // pprof.addr, pprof.paths, pprof.rust.
    let bench =
        Bench::new(CHAIN, "a {\npprof\nanswers\n}\nb {\npprof localhost:6053\nanswers\n}\n");
    let at: Vec<_> =
        bench.built.pages.iter().map(|page| format!("{} {}", page.addr, page.path)).collect();
    assert_eq!(at, ["127.0.0.1:6053 /debug/pprof/", "127.0.0.1:6053 /debug/pprof"]);
    for (path, query, status, want) in [
        ("/debug/pprof", None, 200, "/debug/pprof/heap"),
        ("/debug/pprof/", None, 200, "/debug/pprof/profile"),
        ("/debug/pprof/symbol", None, 200, "num_symbols: 0"),
        ("/debug/pprof/goroutine", Some("debug=1"), 501, "Go's runtime"),
        ("/debug/pprof/trace", Some("seconds=1"), 501, "Go's runtime"),
        ("/debug/pprof/nonsense", None, 404, "not found"),
        ("/debug/pprof/profile", Some("seconds=0"), 400, "from 1 to 50"),
        ("/debug/pprof/profile", Some("a=b&seconds=51"), 400, "from 1 to 50"),
        ("/debug/pprof/profile", Some("seconds=x"), 400, "from 1 to 50"),
    ] {
        let told = page(&bench, path, query).await;
        let text = String::from_utf8(told.body).unwrap();
        assert!(told.status == status && text.contains(want), "{path}: {} {text}", told.status);
    }
    let told = page(&bench, "/debug/pprof/cmdline", None).await;
    let first = std::env::args().next().unwrap();
    assert_eq!(String::from_utf8(told.body).unwrap().split('\0').next(), Some(&*first));
}

#[tokio::test]
async fn the_heap_is_what_the_kernel_counts() {
    let bench = Bench::new(CHAIN, "a {\npprof\nanswers\n}\n");
    let told = page(&bench, "/debug/pprof/heap", None).await;
    assert_eq!((told.status, told.content_type), (200, "application/octet-stream"));
    let names = names(&told);
    assert!(names.iter().any(|name| name.starts_with("[stack]")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("[heap]")), "{names:?}");
}

#[tokio::test]
async fn the_profile_has_what_has_run() {
    let bench = Bench::new(CHAIN, "a {\npprof\nanswers\n}\n");
    static STOP: AtomicBool = AtomicBool::new(false);
    let busy = std::thread::spawn(|| spin_for_the_profile(&STOP));
    let first = page(&bench, "/debug/pprof/profile", Some("seconds=2"));
    let second = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        page(&bench, "/debug/pprof/profile", Some("seconds=1")).await
    };
    let (told, refused) = tokio::join!(first, second);
    STOP.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    let names = names(&told);
    assert!(names.iter().any(|name| name.contains("spin_for_the_profile")), "{names:?}");
    // One at a time.
    let text = String::from_utf8(refused.body).unwrap();
    assert!(refused.status == 500 && text.contains("already in use"), "{text}");
}

#[test]
fn what_is_refused() {
    // pprof.addr, pprof.block.
    for (lines, want) in [
        ("pprof :1 :2", "':2' is one too many"),
        ("pprof 6053", "'6053' has no port"),
        ("pprof\npprof", "can only be used once"),
        ("pprof {\nfoo\n}", "'foo' is not a property"),
        ("pprof {\nblock x\n}", "'x' is wrong"),
        ("pprof {\nblock 1 2\n}", "'2' is one too many"),
    ] {
        let wrong = Bench::refused(CHAIN, &format!("test {{\n{lines}\nanswers\n}}\n"));
        assert!(wrong.starts_with("plugin/pprof: ") && wrong.contains(want), "{lines}: {wrong}");
    }
    let bench = Bench::new(CHAIN, "test {\npprof {\nblock\n}\nanswers\n}\n");
    assert!(bench.built.warnings[0].what.contains("does nothing"));
    let bench = Bench::new(CHAIN, "test {\npprof 127.0.0.1:0 {\nblock 5\n}\nanswers\n}\n");
    assert_eq!(bench.built.pages[0].addr.port(), 0);
}
