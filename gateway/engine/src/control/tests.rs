//! Reports as people and programs read them.

use super::*;

/// A report with all that there is.
fn report() -> Value {
    let cluster = |name: &str, synced: bool| {
        Value::fields().with("name", name).with("synced", synced).with("last_error", Value::Nothing)
    };
    Value::fields()
        .with("version", "1.0")
        .with("up_seconds", 12_usize)
        .with("zones", vec!["example.org", "example.net"])
        .with("none", Vec::<String>::new())
        .with("clusters", vec![cluster("prod", true), cluster("b", false)])
        .with("inner", Value::fields().with("odd", "a\u{1b}\"\n\\").with("part", 0.5))
}

#[test]
fn programs_read_json() {
    assert_eq!(
        report().json(),
        r#"{"version":"1.0","up_seconds":12,"zones":["example.org","example.net"],"none":[],"clusters":[{"name":"prod","synced":true,"last_error":null},{"name":"b","synced":false,"last_error":null}],"inner":{"odd":"a\u001b\"\n\\","part":0.5}}"#
    );
    assert_eq!(Value::Real(f64::NAN).json(), "null");
}

#[test]
fn people_read_lines_and_tables() {
    let want = "\
version     1.0
up seconds  12
zones       example.org, example.net
none        none
clusters:
  NAME  SYNCED  LAST ERROR
  prod  yes     -
  b     no      -
inner:
  odd   a\u{fffd}\"\u{fffd}\\
  part  0.500
";
    assert_eq!(report().text(), want);
    assert_eq!(Value::from("x").text(), "x\n");
    let own = Report::new(1_usize).with_text("one\u{7}\ntwo").bad();
    assert_eq!((own.to_text().as_str(), own.outcome), ("one\u{fffd}\ntwo\n", Outcome::Bad));
}
