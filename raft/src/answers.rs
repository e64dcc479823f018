//! Answers to the requests of another replica: one connection, one thread, one request after the other.

use std::io::{self, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::link::Link;
use crate::requests::{read_request, request_frame, Said, IDLE_MAX, PAYLOAD_BYTES_MAX};

/// Answers a request of a replica, or says why there is no answer. It may take long, and it runs in several
/// threads at once.
pub type Answerer = Arc<dyn Fn(u64, &[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// Answers what a replica asks, until it closes the connection, is silent for long, or says something wrong.
pub fn answer_all(link: Link, from: u64, answerer: &Answerer, is_closed: &AtomicBool) -> io::Result<()> {
    // Whoever asks gives a silent connection up first, so no request is lost.
    link.relax(Some(IDLE_MAX * 2))?;
    let mut stream = BufReader::new(link);
    while let Some((number, said, request)) = read_request(&mut stream)? {
        if said != Said::Request {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no request"));
        }
        if is_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let frame = match answerer(from, &request) {
            Ok(answer) if answer.len() <= PAYLOAD_BYTES_MAX => request_frame(number, Said::Answer, &answer),
            Ok(answer) => {
                let text = format!("its answer has {} bytes, which are too many", answer.len());
                request_frame(number, Said::NoAnswer, text.as_bytes())
            }
            Err(text) => request_frame(number, Said::NoAnswer, text.as_bytes()),
        };
        stream.get_mut().write_all(&frame)?;
        stream.get_mut().flush()?;
    }
    Ok(())
}
