//! What can be said of a kubeconfig without asking anybody.

use crate::Source;

#[test]
fn what_a_kubeconfig_lacks_is_said() {
    let file = std::env::temp_dir().join(format!("causeway-k8s-lacks-{}", std::process::id()));
    let clusters = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n";
    let users = "users: [{name: u, user: {token: secret}}]\n";
    let contexts = "contexts: [{name: x, context: {cluster: c, user: u}}]\n";
    let current = "current-context: x\n";
    let whole = [clusters, users, contexts, current].concat();
    for (text, context, want) in [
        (whole.clone(), None, None),
        (whole.clone(), Some("x"), None),
        (whole.clone(), Some("y"), Some("has no context 'y' (it has: x)")),
        (whole.replace(current, ""), None, Some("has no current context")),
        (whole.replace(clusters, ""), None, Some("has no cluster 'c'")),
        (whole.replace(users, ""), None, Some("has no user 'u'")),
        ("{".to_owned(), None, Some("cannot be understood: ")),
    ] {
        std::fs::write(&file, &text).unwrap();
        let source = Source::Kubeconfig { file: file.clone(), context: context.map(str::to_owned) };
        let odd = source.odd();
        match want {
            None => assert_eq!(odd, None, "{text}"),
            Some(want) => {
                let odd = odd.unwrap_or_default();
                assert!(odd.starts_with(want) && !odd.contains("secret"), "{text}: {odd}");
            }
        }
    }
    std::fs::remove_file(&file).unwrap();
}
