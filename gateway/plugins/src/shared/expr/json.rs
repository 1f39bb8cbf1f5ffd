//! Values as JSON, and back, as Go's `encoding/json` has them.

use std::rc::Rc;

use serde_json::Value as Json;

use super::run::{Ran, Run};
use super::{Fail, Value};

/// A value as JSON, its members indented by two spaces.
pub(super) fn write<'a>(run: &mut Run<'a>, value: &Value<'a>) -> Ran<'a> {
    let json = of(run, value)?;
    let text = serde_json::to_string_pretty(&json).map_err(|wrong| Fail::new(wrong.to_string()))?;
    run.spend(text.len())?;
    // As Go does, for texts that stand in pages of the web.
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    Ok(Value::text(text))
}

/// The value that a text in JSON has; its numbers have fractions.
pub(super) fn read<'a>(run: &mut Run<'a>, text: &str) -> Ran<'a> {
    run.spend(text.len())?;
    let json =
        serde_json::from_str(text).map_err(|wrong| Fail::new(format!("no JSON: {wrong}")))?;
    Ok(from(json))
}

/// A value for the writer.
fn of(run: &mut Run<'_>, value: &Value<'_>) -> Result<Json, Fail> {
    run.spend(1)?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(number) => Json::from(*number),
        // Whole numbers have no fraction, whatever their kind.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Json::from(*number as i64)
        }
        Value::Float(number) => {
            let number = serde_json::Number::from_f64(*number);
            Json::Number(number.ok_or_else(|| Fail::new(format!("{value} is no number of JSON")))?)
        }
        Value::Str(text) => Json::from(text.as_str()),
        Value::Array(all) => {
            Json::Array(all.iter().map(|value| of(run, value)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let pairs = map.iter().map(|(key, value)| Ok((key.clone(), of(run, value)?)));
            Json::Object(pairs.collect::<Result<_, Fail>>()?)
        }
    })
}

/// A value of what was read.
fn from<'a>(json: Json) -> Value<'a> {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::text(text),
        Json::Array(all) => Value::array(all.into_iter().map(from).collect()),
        Json::Object(map) => {
            Value::Map(Rc::new(map.into_iter().map(|(key, value)| (key, from(value))).collect()))
        }
    }
}
