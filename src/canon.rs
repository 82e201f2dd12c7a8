//! The identity of a request: strict JSON in, canonical JSON (RFC 8785) and its hash out.
//!
//! The form is frozen by golden tests. RFC 8785 writes numbers as IEEE doubles, which would make 2^53 and 2^53 + 1 one
//! and the same request; integers beyond ±(2^53 − 1) are therefore refused, and so are duplicate keys (trap 22).

use crate::prelude::*;
use core::fmt;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Largest integer that a double holds exactly with all below it.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Parses JSON, refusing what has no canonical form. The error names the place as a JSON Pointer.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { path: String::new() }.deserialize(&mut from).map_err(|e| e.to_string())?;
    from.end().map_err(|e| e.to_string())?;
    Ok(value)
}

/// Writes a value as RFC 8785 says.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The hash of a request, version 1: SHA-256 over the version byte and the canonical form.
pub fn hash(value: &Value) -> String {
    let mut bytes = vec![1u8];
    bytes.extend_from_slice(canonical(value).as_bytes());
    format!("sha256:{}", crate::id::sha256_hex(&bytes))
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(&Value::String(key.clone()), out);
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Number(number) => out.push_str(&write_number(number)),
        // serde_json escapes just what RFC 8785 wants: `"`, `\` and the controls, in the short forms where there are.
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// A number as ECMAScript's `Number::toString` writes it (ECMA-262, 6.1.6.1.20).
fn write_number(number: &Number) -> String {
    if !number.is_f64() {
        return number.to_string();
    }
    let value = number.as_f64().unwrap_or(0.0);
    if value == 0.0 {
        return "0".into();
    }
    // `{:e}` gives the shortest digits that read back as the same double: d.ddd…e±x.
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (k, n) = (digits.len() as i32, exponent + 1);
    let body = if (k..=21).contains(&n) {
        format!("{digits}{}", "0".repeat((n - k) as usize))
    } else if (1..=21).contains(&n) {
        format!("{}.{}", &digits[..n as usize], &digits[n as usize..])
    } else if (-5..=0).contains(&n) {
        format!("0.{}{digits}", "0".repeat(-n as usize))
    } else {
        let sign = if n > 0 { '+' } else { '-' };
        let point = if k > 1 { "." } else { "" };
        format!("{}{point}{}e{sign}{}", &digits[..1], &digits[1..], (n - 1).abs())
    };
    if value < 0.0 { format!("-{body}") } else { body }
}

struct Strict {
    path: String,
}

impl Strict {
    fn at(&self, step: impl fmt::Display) -> Self {
        Self { path: format!("{}/{step}", self.path) }
    }

    fn place(&self) -> &str {
        if self.path.is_empty() { "the top level" } else { &self.path }
    }

    fn integer<E: serde::de::Error>(&self, magnitude: u64, number: Number) -> Result<Value, E> {
        if magnitude > INTEGER_MAX {
            return Err(E::custom(format!(
                "the integer at {} is beyond ±(2^53 − 1); send it as a string",
                self.place()
            )));
        }
        Ok(Value::Number(number))
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.integer(value, value.into())
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value.unsigned_abs(), value.into())
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // A literal too long for 64 bits arrives here as a double, and 1.0 must hash as 1 does.
        let whole = value % 1.0 == 0.0;
        if whole && (-(INTEGER_MAX as f64)..=INTEGER_MAX as f64).contains(&value) {
            return Ok(Value::Number((value as i64).into()));
        }
        if whole {
            return self.integer(u64::MAX, 0.into());
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format!("the number at {} is not finite", self.place())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.at(items.len()))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let here = self.at(key.replace('~', "~0").replace('/', "~1"));
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key at {} stands twice", here.path)));
            }
            let value = entries.next_value_seed(here)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canon(text: &str) -> String {
        canonical(&parse(text.as_bytes()).unwrap())
    }

    /// The samples of RFC 8785, 3.2.2 and 3.2.3 and appendix B.
    #[test]
    fn golden_forms() {
        assert_eq!(
            canon(r#"{"numbers":[333333333.33333329,1E30e0,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#.replace("1E30e0,", "").as_str()),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(
            canon(r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}"
        );
        for (from, to) in [
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("0.000001", "0.000001"),
            ("1e-7", "1e-7"),
            ("1.5e-9", "1.5e-9"),
            ("123.456", "123.456"),
            ("-2.5", "-2.5"),
        ] {
            assert_eq!(canon(from), to, "{from}");
        }
    }

    /// Frozen: a change of this would turn every retry into a conflict.
    #[test]
    fn the_hash_is_frozen() {
        assert_eq!(
            hash(&serde_json::json!({"b": 1, "a": [true, null, "x"]})),
            "sha256:6d657b183a619fb55ba37893a78807cd3f8f4f121fb703b47af5d8a51621fb0b"
        );
    }

    /// Trap 22: two requests that differ must not hash alike.
    #[test]
    fn what_has_no_canonical_form_is_refused_with_its_place() {
        for (text, place) in [
            (r#"{"a":[1,9007199254740993]}"#, "/a/1"),
            (r#"{"a":{"b":-9007199254740992}}"#, "/a/b"),
            (r#"[18446744073709551616]"#, "/0"),
            (r#"{"x":{"k":1,"k":2}}"#, "/x/k"),
            (r#"{"a/b":1,"a/b":2}"#, "/a~1b"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(place), "{error}");
        }
        assert!(parse(b"9007199254740991").is_ok());
        assert!(parse(b"{} x").is_err());
        assert!(parse(b"1e999").is_err());
        assert!(parse("[".repeat(10_000).as_bytes()).is_err());
    }

    proptest! {
        /// The canonical form reads back as the same value, and is its own canonical form.
        #[test]
        fn canonical_is_stable(value in -1e300f64..1e300, text in ".*", n in -9_007_199_254_740_991i64..=9_007_199_254_740_991) {
            if value % 1.0 != 0.0 {
                let number = Number::from_f64(value).unwrap();
                prop_assert_eq!(write_number(&number).parse::<f64>().unwrap(), value);
            }
            let form = canonical(&serde_json::json!({text.clone(): [n, text]}));
            prop_assert_eq!(canonical(&parse(form.as_bytes()).unwrap()), form);
        }
    }
}
