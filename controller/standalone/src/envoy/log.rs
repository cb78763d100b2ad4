//! Envoy's log file, read as it grows.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// A log of more than this is cut: everything in it has been relayed.
const LIMIT: u64 = 4 << 20;
/// Read at a time.
const CHUNK: u64 = 1 << 20;
/// A line is relayed when it has so many bytes although its end is not there yet.
const LONGEST_LINE: usize = 64 << 10;

/// Reads complete lines from where it left off.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    position: u64,
    /// The beginning of a line whose end is not there yet
    rest: Vec<u8>,
}

impl LogReader {
    /// Reads from the present end of the file: what came before was relayed by an earlier process, or concerns no one.
    #[must_use]
    pub fn at_end(path: PathBuf) -> Self {
        let position = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        Self { path, position, rest: Vec::new() }
    }

    /// The lines that are new.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        if length < self.position {
            self.position = 0;
        }
        if length == self.position {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = std::mem::take(&mut self.rest);
        self.position += (&file).take(CHUNK).read_to_end(&mut bytes)? as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if bytes.len() - end < LONGEST_LINE {
            self.rest = bytes.split_off(end);
        }
        if self.position >= LIMIT && self.position == file.metadata()?.len() {
            // Envoy appends, so that it goes on at the new end.
            OpenOptions::new().write(true).open(&self.path)?.set_len(0)?;
            self.position = 0;
        }
        Ok(String::from_utf8_lossy(&bytes).lines().map(ToOwned::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn whole_lines_once_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "old\n").unwrap();
        let mut reader = LogReader::at_end(path.clone());
        assert_eq!(reader.lines().unwrap(), [] as [&str; 0]);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "one\ntw").unwrap();
        assert_eq!(reader.lines().unwrap(), ["one"]);
        writeln!(file, "o").unwrap();
        assert_eq!(reader.lines().unwrap(), ["two"]);
        for number in 0..200_000 {
            writeln!(file, "a line of the log with number {number}").unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() > LIMIT);
        let mut count = 0;
        loop {
            let lines = reader.lines().unwrap();
            if lines.is_empty() {
                break;
            }
            count += lines.len();
        }
        assert_eq!(count, 200_000);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "cut after it was relayed");
        writeln!(file, "after").unwrap();
        assert_eq!(reader.lines().unwrap(), ["after"]);
    }
}
