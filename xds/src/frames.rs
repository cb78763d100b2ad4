//! The frames in which requests arrive, cut small before h2 reads them.
//!
//! h2 reads into a buffer of 8 KiB, which it keeps for the life of the connection and doubles for the first larger frame, and no proxy can be
//! asked for less than 16 KiB (RFC 9113 6.5.2, `SETTINGS_MAX_FRAME_SIZE`). Where a DATA frame ends means nothing to what it carries.
//!
//! A small flow-control window would do the same, and stops streams for good: a proxy sends its first request before it has read our
//! SETTINGS, with the window of 64 KiB that HTTP/2 begins with. Where that request has been read before the proxy acknowledges the SETTINGS,
//! its window falls below zero, and h2 (0.4.20, `recv::apply_local_settings`) does not give back what it has already counted as read. So
//! the window stays at what it begins with.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// The first bytes of a client (RFC 9113 3.4), before any frame.
const PREFACE: usize = 24;
/// Length, type, flags, stream (RFC 9113 4.1).
const HEAD: usize = 9;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;
/// What fits into h2's buffer beside the head.
const ROOM: usize = 8 * 1024 - HEAD;

/// A connection from which no DATA frame of more than 8 KiB is read.
pub(crate) struct Cut<IO> {
    io: IO,
    next: Next,
    head: [u8; HEAD],
    /// Bytes that belong to `head`
    part: usize,
    /// Bytes of the frame behind those
    rest: usize,
    /// The frame's flags as they came
    flags: u8,
}

/// What is read next.
enum Next {
    /// The head of a frame, of which so much has been received
    Head(usize),
    /// What is in `head`, of which so much has been passed on
    Handing(usize),
    /// So many bytes as they come
    Passing(usize),
}

impl<IO> Cut<IO> {
    pub(crate) const fn new(io: IO) -> Self {
        Self { io, next: Next::Passing(PREFACE), head: [0; HEAD], part: 0, rest: 0, flags: 0 }
    }

    /// A head has been received.
    const fn begin(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if kind == DATA && flags & PADDED == 0 && length > ROOM {
            self.rest = length;
            self.flags = flags;
            self.cut();
        } else {
            self.part = length;
            self.next = Next::Handing(0);
        }
    }

    /// Makes the head of the next part of a frame.
    const fn cut(&mut self) {
        self.part = if self.rest < ROOM { self.rest } else { ROOM };
        self.rest -= self.part;
        let flags = if self.rest == 0 { self.flags } else { self.flags & !END_STREAM };
        let [.., high, low] = self.part.to_be_bytes();
        let [_, _, _, kind, _, stream @ ..] = self.head;
        let [s, t, u, v] = stream;
        self.head = [0, high, low, kind, flags, s, t, u, v];
        self.next = Next::Handing(0);
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Cut<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.next {
                Next::Head(received) => {
                    let mut head = ReadBuf::new(this.head.get_mut(received..).unwrap_or_default());
                    ready!(Pin::new(&mut this.io).poll_read(context, &mut head))?;
                    match head.filled().len() {
                        0 => return Poll::Ready(Ok(())),
                        more if received + more < HEAD => this.next = Next::Head(received + more),
                        _ => this.begin(),
                    }
                }
                Next::Handing(handed) => {
                    let head = this.head.get(handed..).unwrap_or_default();
                    let (now, later) = head.split_at(head.len().min(buffer.remaining()));
                    buffer.put_slice(now);
                    this.next =
                        if later.is_empty() { Next::Passing(this.part) } else { Next::Handing(HEAD - later.len()) };
                    return Poll::Ready(Ok(()));
                }
                Next::Passing(0) if this.rest > 0 => this.cut(),
                Next::Passing(0) => this.next = Next::Head(0),
                Next::Passing(left) => {
                    let mut passed = ReadBuf::new(buffer.initialize_unfilled_to(left.min(buffer.remaining())));
                    ready!(Pin::new(&mut this.io).poll_read(context, &mut passed))?;
                    let passed = passed.filled().len();
                    buffer.advance(passed);
                    this.next = Next::Passing(left - passed);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Cut<IO> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<IO: Connected> Connected for Cut<IO> {
    type ConnectInfo = IO::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
