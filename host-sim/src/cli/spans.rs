//! The raw text of parts of a JSON text. An export must keep every message exactly as it is stored, and a parsed and
//! rewritten value may differ in the order of its fields or the digits of a number.

/// The raw value of a field of an object; the last one of that name, as parsers take it.
pub fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut scan = Scan { text: object, at: 0 };
    scan.expect(b'{')?;
    let mut found = None;
    if scan.peek()? == b'}' {
        return None;
    }
    loop {
        let key: String = serde_json::from_str(scan.value()?).ok()?;
        scan.expect(b':')?;
        let value = scan.value()?;
        if key == name {
            found = Some(value);
        }
        match scan.next()? {
            b',' => {}
            b'}' => return found,
            _ => return None,
        }
    }
}

/// The raw elements of an array.
pub fn elements(array: &str) -> Option<Vec<&str>> {
    let mut scan = Scan { text: array, at: 0 };
    scan.expect(b'[')?;
    let mut found = Vec::new();
    if scan.peek()? == b']' {
        return Some(found);
    }
    loop {
        found.push(scan.value()?);
        match scan.next()? {
            b',' => {}
            b']' => return Some(found),
            _ => return None,
        }
    }
}

/// A reader of tokens. It finds where values end and checks nothing else.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn peek(&mut self) -> Option<u8> {
        while self.byte()?.is_ascii_whitespace() {
            self.at += 1;
        }
        self.byte()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn value(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let from = self.at;
        match first {
            b'"' => self.string()?,
            b'{' | b'[' => self.nested()?,
            _ => {
                while self.byte().is_some_and(|b| !b.is_ascii_whitespace() && !matches!(b, b',' | b':' | b']' | b'}')) {
                    self.at += 1;
                }
            }
        }
        self.text.get(from..self.at).filter(|raw| !raw.is_empty())
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.byte()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn nested(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            match self.byte()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_text_is_kept_to_the_byte() {
        let body = r#" { "messages" : [ {"b":1.50,"a":"}\"]"} , 12e2,"x" ,[] ], "count":3} "#;
        let messages = field(body, "messages").unwrap();
        assert_eq!(elements(messages).unwrap(), [r#"{"b":1.50,"a":"}\"]"}"#, "12e2", r#""x""#, "[]"]);
        assert_eq!(field(body, "count"), Some("3"));
        assert_eq!(field(body, "none"), None);
    }

    #[test]
    fn broken_text_gives_nothing_and_never_panics() {
        let whole = r#"{"messages":[{"a":"\u00e9é"},{"b":[1,2]}],"n":-1}"#;
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert_eq!(field(&whole[..end], "n"), None);
            let _ = elements(&whole[end..]);
        }
        assert_eq!(elements("[}"), None);
        assert_eq!(elements("["), None);
        assert_eq!(field("{}", "a"), None);
        assert_eq!(elements("[ ]"), Some(vec![]));
    }
}
