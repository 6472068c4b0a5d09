//! A minimal client of Redis's protocol (RESP2).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Runs one command over a socket; returns the reply, flattened to lines, or the error's text.
pub(super) fn run_command(socket: &Path, command: &[&str]) -> io::Result<Result<String, String>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let mut request = format!("*{}\r\n", command.len());
    for word in command {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes())?;
    let mut lines = Vec::new();
    let error = read_reply(&mut BufReader::new(stream), &mut lines)?;
    Ok(match error {
        Some(error) => Err(error),
        None => Ok(lines.join("\n")),
    })
}

/// Reads one reply into `lines`; returns the first error in it, if any.
fn read_reply(reader: &mut impl BufRead, lines: &mut Vec<String>) -> io::Result<Option<String>> {
    let mut first_line = String::new();
    reader.read_line(&mut first_line)?;
    let first_line = first_line.trim_end();
    let malformed = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("malformed reply {first_line:?}"),
        )
    };
    let (kind, rest) = first_line.split_at_checked(1).ok_or_else(malformed)?;
    match kind {
        "+" | ":" => lines.push(rest.to_owned()),
        "-" => return Ok(Some(rest.to_owned())),
        "$" => match rest.parse::<i64>().map_err(|_| malformed())? {
            -1 => lines.push(String::new()),
            length => {
                let length = usize::try_from(length).map_err(|_| malformed())?;
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                lines.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            }
        },
        "*" => {
            let mut first_error = None;
            for _ in 0..rest.parse::<i64>().map_err(|_| malformed())? {
                let error = read_reply(reader, lines)?;
                first_error = first_error.or(error);
            }
            return Ok(first_error);
        }
        _ => return Err(malformed()),
    }
    Ok(None)
}
