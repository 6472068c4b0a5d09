//! JSON with the places of its objects; comments and commas behind the last member where they are allowed.

use serde_json::Value;

/// No configuration nests deeper.
const DEPTH_MAX: usize = 64;

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    /// Its first byte.
    pub(super) start: usize,
    /// Behind its last byte.
    pub(super) end: usize,
    /// The members of an object, in order.
    pub(super) members: Vec<Member>,
    /// Whether a comma stands behind the last one.
    pub(super) trailing_comma: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Object,
    Array(Vec<Node>),
    /// A text, number or word.
    Plain,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member {
    /// The first byte of its name.
    pub(super) start: usize,
    pub(super) name: String,
    pub(super) node: Node,
}

impl Node {
    pub(super) fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object)
    }

    /// The value, as programs read it.
    pub(super) fn value(&self, text: &str) -> Option<Value> {
        match &self.kind {
            Kind::Plain => serde_json::from_str(text.get(self.start..self.end)?).ok(),
            Kind::Array(nodes) => nodes.iter().map(|node| node.value(text)).collect(),
            Kind::Object => {
                let members = self.members.iter();
                let members = members.map(|m| Some((m.name.clone(), m.node.value(text)?)));
                members
                    .collect::<Option<serde_json::Map<_, _>>>()
                    .map(Value::Object)
            }
        }
    }
}

/// Reads one document.
///
/// # Errors
/// What is wrong, with its line and column.
pub(super) fn read(text: &str, comments: bool) -> Result<Node, String> {
    let mut reader = Reader {
        text,
        at: 0,
        comments,
    };
    if text.starts_with('\u{feff}') {
        reader.at = '\u{feff}'.len_utf8();
    }
    reader.space()?;
    let node = reader.value(0)?;
    reader.space()?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.wrong("something behind the document's end")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    comments: bool,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().bytes().next()
    }

    fn wrong(&self, what: &str) -> String {
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        format!("line {line}, column {column}: {what}")
    }

    /// White space and comments.
    fn space(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            let text = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            let skipped = rest.len() - text.len();
            let comment = match text.get(..2) {
                Some("//") => text.find('\n').unwrap_or(text.len()),
                Some("/*") => match text.find("*/") {
                    Some(end) => end + 2,
                    None => return Err(self.wrong("a comment without an end")),
                },
                _ => 0,
            };
            self.at += skipped;
            if comment == 0 {
                return Ok(());
            }
            if !self.comments {
                return Err(self.wrong("a comment, which JSON has not"));
            }
            self.at += comment;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("nested too deep"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            _ => self.plain(),
        }
    }

    /// The end of a list's element: whether there is another one.
    fn more(&mut self, close: u8, comma: &mut bool) -> Result<bool, String> {
        self.space()?;
        if self.peek() == Some(close) {
            if *comma && !self.comments {
                return Err(self.wrong("a comma without a value behind it"));
            }
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// A comma, unless the list ends.
    fn comma(&mut self, close: u8) -> Result<bool, String> {
        self.space()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.wrong(&format!("expected , or {}", char::from(close)))),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, String> {
        let start = self.at;
        self.at += 1;
        let (mut members, mut comma) = (Vec::new(), false);
        while self.more(b'}', &mut comma)? {
            if !members.is_empty() && !comma {
                return Err(self.wrong("expected , or }"));
            }
            members.push(self.member(depth)?);
            comma = self.comma(b'}')?;
        }
        Ok(Node {
            start,
            end: self.at,
            members,
            trailing_comma: comma,
            kind: Kind::Object,
        })
    }

    fn member(&mut self, depth: usize) -> Result<Member, String> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.wrong("expected a name in quotes"));
        }
        let name = self.plain()?;
        let name = match name.value(self.text) {
            Some(Value::String(name)) => name,
            _ => return Err(self.wrong("expected a name in quotes")),
        };
        self.space()?;
        if self.peek() != Some(b':') {
            return Err(self.wrong("expected :"));
        }
        self.at += 1;
        self.space()?;
        let node = self.value(depth + 1)?;
        Ok(Member { start, name, node })
    }

    fn array(&mut self, depth: usize) -> Result<Node, String> {
        let start = self.at;
        self.at += 1;
        let (mut nodes, mut comma) = (Vec::new(), false);
        while self.more(b']', &mut comma)? {
            if !nodes.is_empty() && !comma {
                return Err(self.wrong("expected , or ]"));
            }
            nodes.push(self.value(depth + 1)?);
            comma = self.comma(b']')?;
        }
        Ok(Node {
            start,
            end: self.at,
            members: Vec::new(),
            trailing_comma: comma,
            kind: Kind::Array(nodes),
        })
    }

    /// A text, number or word; JSON's own reader says whether it is one.
    fn plain(&mut self) -> Result<Node, String> {
        let rest = self.rest();
        let length = if rest.starts_with('"') {
            text_length(rest)
        } else {
            rest.find([
                ',', '}', ']', ':', ' ', '\t', '\r', '\n', '/', '"', '{', '[',
            ])
        };
        let length = length.unwrap_or(rest.len());
        let token = rest.get(..length).unwrap_or_default();
        if serde_json::from_str::<Value>(token).is_err() {
            return Err(self.wrong("expected a value"));
        }
        let start = self.at;
        self.at += length;
        Ok(Node {
            start,
            end: self.at,
            members: Vec::new(),
            trailing_comma: false,
            kind: Kind::Plain,
        })
    }
}

/// The length of the text in quotes that `rest` begins with; `None` when it does not end.
fn text_length(rest: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}
