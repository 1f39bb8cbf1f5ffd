//! The alerts are right, fire when they should and only then, and are told of in the guide.

use std::collections::BTreeSet;
use std::process::Command;

use tests::Folder;

use crate::text_of;

/// The rules.
const RULES: &str = "deploy/prometheus/causeway.rules.yaml";

/// What `promtool test rules` is given: what the metrics were, and which alerts there are then. A sample a minute; of `+Inf` none ends.
const CASES: &str = r#"
rule_files: [causeway.rules.yaml]
evaluation_interval: 1m
tests:
- interval: 1m
  name: nothing is wrong
  input_series:
  - {series: 'coredns_dns_responses_total{instance="a", rcode="NOERROR"}', values: '0+1000x1500'}
  - {series: 'coredns_dns_responses_total{instance="a", rcode="SERVFAIL"}', values: '0+10x1500'}
  - {series: 'coredns_panics_total', values: '0x1500'}
  - {series: 'coredns_reload_failed_total', values: '1x1500'}
  - {series: 'causeway_kubernetes_stale{cluster="prod"}', values: '0x1500'}
  - {series: 'causeway_kubernetes_watch_state{cluster="prod", kind="services", state="watching"}', values: '1x1500'}
  - {series: 'causeway_kubernetes_watch_state{cluster="prod", kind="services", state="failing"}', values: '0x1500'}
  - {series: 'causeway_kubernetes_watch_state{cluster="prod", kind="serviceimports", state="absent"}', values: '1x1500'}
  - {series: 'causeway_kubernetes_granted{cluster="prod", kind="services", namespace=""}', values: '1x1500'}
  - {series: 'causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="password"}', values: 'InfxN'}
  - {series: 'causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="token"}', values: '3600+60x1500'}
  - {series: 'causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="exec"}', values: '70+60x1500'}
  - {series: 'causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="ca"}', values: '1e9x1500'}
  - {series: 'causeway_kubernetes_verify_differences_total{cluster="prod", kind="services", difference="missing"}', values: '0x1500'}
  - {series: 'causeway_kubernetes_snapshot_failures_total{cluster="prod"}', values: '2x1500'}
  - {series: 'causeway_kubernetes_conflicts{zone="x.", cluster="prod"}', values: '0x1500'}
  - {series: 'causeway_clusterset_conflicts{zone="x.", kind="port"}', values: '0x1500'}
  - {series: 'causeway_kubernetes_overlaps{cluster="prod", other="edge", kind="services"}', values: '0x1500'}
  - {series: 'causeway_clusterset_share{zone="x.", cluster="prod", state="live"}', values: '1x1500'}
  - {series: 'causeway_clusterset_share{zone="x.", cluster="prod", state="gone"}', values: '0x1500'}
  - {series: 'causeway_tls_broken{source="tls"}', values: '0x1500'}
  - {series: 'causeway_tls_certificate_expiry_timestamp_seconds{source="tls"}', values: '1e9x1500'}
  - {series: 'causeway_transfer_notices_total{result="failed"}', values: '2x1500'}
  promql_expr_test:
  - {expr: 'ALERTS', eval_time: 2h, exp_samples: []}
  - {expr: 'ALERTS', eval_time: 24h30m, exp_samples: []}
"#;

/// The metrics of an alert that fires, with their values, how long they are so, and its name.
const FIRING: &[(&str, &str, &str, &str)] = &[
    ("CausewayServfail", r#"coredns_dns_responses_total{rcode="SERVFAIL"}"#, "0+100x60", "20m"),
    ("CausewayPanic", "coredns_panics_total", "0x10 1x50", "15m"),
    ("CausewayReloadFailed", "coredns_reload_failed_total", "0x10 1x50", "15m"),
    ("CausewayClusterStale", r#"causeway_kubernetes_stale{cluster="prod"}"#, "0x10 1x50", "15m"),
    (
        "CausewayWatchFails",
        r#"causeway_kubernetes_watch_state{cluster="prod", kind="services", state="forbidden"}"#,
        "1x60",
        "15m",
    ),
    (
        "CausewayRightMissing",
        r#"causeway_kubernetes_granted{cluster="prod", kind="services", namespace=""}"#,
        "0x60",
        "15m",
    ),
    (
        "CausewayCredentialEnds",
        r#"causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="token"}"#,
        "500000x1600",
        "25h",
    ),
    (
        "CausewayCredentialEnded",
        r#"causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="ca"}"#,
        "1100x60",
        "15m",
    ),
    (
        "CausewayCredentialEnded",
        r#"causeway_kubernetes_credential_expiry_timestamp_seconds{cluster="prod", kind="exec"}"#,
        "600x60",
        "15m",
    ),
    (
        "CausewayClusterDiffers",
        r#"causeway_kubernetes_verify_differences_total{cluster="prod", kind="services", difference="missing"}"#,
        "0x60 1x60",
        "70m",
    ),
    (
        "CausewayClusterDiffers",
        r#"causeway_kubernetes_verify_differences_total{cluster="prod", kind="services", difference="missing"}"#,
        "_x60 3x60",
        "70m",
    ),
    (
        "CausewaySnapshotFails",
        r#"causeway_kubernetes_snapshot_failures_total{cluster="prod"}"#,
        "_x60 1x60",
        "70m",
    ),
    (
        "CausewayServicesConflict",
        r#"causeway_kubernetes_conflicts{zone="x.", cluster="prod"}"#,
        "3x60",
        "20m",
    ),
    (
        "CausewayServicesConflict",
        r#"causeway_clusterset_conflicts{zone="x.", kind="port"}"#,
        "3x60",
        "20m",
    ),
    (
        "CausewayRangesOverlap",
        r#"causeway_kubernetes_overlaps{cluster="prod", other="edge", kind="services"}"#,
        "3x60",
        "20m",
    ),
    (
        "CausewayShareGone",
        r#"causeway_clusterset_share{zone="x.", cluster="prod", state="gone"}"#,
        "1x60",
        "15m",
    ),
    ("CausewayCertificateBroken", r#"causeway_tls_broken{source="tls"}"#, "1x60", "15m"),
    (
        "CausewayCertificateEnds",
        r#"causeway_tls_certificate_expiry_timestamp_seconds{source="tls"}"#,
        "200000x60",
        "15m",
    ),
    ("CausewayNoticesFail", r#"causeway_transfer_notices_total{result="failed"}"#, "0+1x60", "20m"),
];

/// The names of the alerts, in their order.
fn names(rules: &str) -> Vec<&str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// Runs promtool on the rules and on what they are to do; gives what it says unless all is right.
fn promtool(rules: &str) -> Result<(), String> {
    let folder = Folder::new("alerts");
    folder.write("causeway.rules.yaml", rules);
    let mut cases = CASES.replace("InfxN", "+Inf+0x1500");
    for (name, series, values, at) in FIRING {
        // Beside it nothing fires; its labels are those of the alert, which are not compared here.
        cases.push_str(&format!(
            "- interval: 1m\n  name: {name}\n  input_series:\n  - {{series: '{series}', values: '{values}'}}\n  \
             promql_expr_test:\n  - {{expr: 'count by (alertname) (ALERTS{{alertstate=\"firing\"}})', eval_time: {at}, \
             exp_samples: [{{labels: '{{alertname=\"{name}\"}}', value: 1}}]}}\n"
        ));
    }
    let file = folder.write("cases.yaml", cases);
    for words in [["check", "rules", "causeway.rules.yaml"], ["test", "rules", "cases.yaml"]] {
        let output = Command::new("promtool").args(words).current_dir(folder.path()).output();
        let output = output.expect("promtool is there (Debian's package prometheus)");
        if !output.status.success() {
            let text = [output.stdout, output.stderr].concat();
            return Err(format!("{}: {}", file.display(), String::from_utf8_lossy(&text)));
        }
    }
    Ok(())
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    let rules = text_of(RULES);
    if let Err(told) = promtool(&rules) {
        panic!("{told}");
    }
    let fired: BTreeSet<&str> = FIRING.iter().map(|(name, ..)| *name).collect();
    assert_eq!(fired, names(&rules).into_iter().collect(), "alerts that no case is for");
    // It finds what is wrong.
    for (from, to) in [("_stale == 1", "_stale == 2"), ("kind!=\"exec\"", "kind!=\"\"")] {
        assert!(promtool(&rules.replace(from, to)).is_err(), "{from}");
    }
}

#[test]
fn the_guide_tells_of_every_alert_and_what_it_looks_at() {
    let (rules, guide) = (text_of(RULES), text_of("docs/operations.md"));
    for name in names(&rules) {
        assert!(guide.contains(&format!("`{name}`")), "{name}");
    }
    let sign = |sign: char| !(sign.is_ascii_lowercase() || sign == '_');
    let metrics = |text: &str| -> BTreeSet<String> {
        let words = text.split(sign);
        let ours =
            words.filter(|word| word.starts_with("causeway_") || word.starts_with("coredns_"));
        ours.map(str::to_owned).collect()
    };
    let (watched, told) = (metrics(&rules), metrics(&guide));
    assert!(watched.is_subset(&told), "{:?}", watched.difference(&told).collect::<Vec<_>>());
    for name in [
        "stale",
        "verify_differences_total",
        "snapshot_failures_total",
        "conflicts",
        "overlaps",
        "credential_expiry_timestamp_seconds",
    ] {
        assert!(watched.contains(&format!("causeway_kubernetes_{name}")), "{name}");
    }
    // All of them are there: a plugin's page tells of each, which is compared with the code elsewhere.
    let mut known = BTreeSet::new();
    for plugin in plugins::CHAIN {
        known.extend(metrics(&text_of(&format!("gateway/plugins/src/{}/README.md", plugin.name))));
    }
    let guides = ["docs/operations.md", "docs/kubernetes.md", "docs/identity.md", RULES];
    for guide in guides {
        let all = metrics(&text_of(guide));
        let lost: Vec<_> = all.difference(&known).filter(|metric| !metric.ends_with('_')).collect();
        assert!(lost.is_empty(), "{guide}: nothing counts {lost:?}");
    }
}
