//! A TCP forwarder: a network that a test can cut, or let lead elsewhere.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Where connections lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    /// `None`: they are closed at once
    target: Option<SocketAddr>,
    /// Nothing passes, as in a network that drops packets: what was sent arrives when something passes again
    is_stalled: bool,
    /// Connections live as long as their way does
    number: u64,
    /// Those of the ways before are not ended: nobody is there any more to do that
    is_lost: bool,
}

/// Passes on what comes to its address, until it is dropped.
pub struct Forwarder {
    address: SocketAddr,
    way: watch::Sender<Way>,
}

impl Forwarder {
    /// Starts one on a free port of loopback, on the current tokio runtime.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(target: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(crate::ports::address()?).await?;
        let address = listener.local_addr()?;
        let (way, watched) = watch::channel(Way { target: Some(target), is_stalled: false, number: 0, is_lost: false });
        tokio::spawn(accept(listener, watched));
        Ok(Self { address, way })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on connections lead there. Those that there are end.
    pub fn lead_to(&self, target: SocketAddr) {
        self.turn(Some(target), false);
    }

    /// The machine behind is gone, and nothing of it can say so: what is sent on the connections that there are is swallowed, and they do not
    /// end. New ones lead to `target`.
    pub fn vanish(&self, target: SocketAddr) {
        self.turn(Some(target), true);
    }

    /// Ends all connections, and new ones at once.
    pub fn cut(&self) {
        self.turn(None, false);
    }

    /// Whether nothing passes, without any connection ending.
    pub fn stall(&self, is_stalled: bool) {
        self.way.send_modify(|way| way.is_stalled = is_stalled);
    }

    fn turn(&self, target: Option<SocketAddr>, is_lost: bool) {
        self.way.send_modify(|way| *way = Way { target, is_stalled: false, number: way.number + 1, is_lost });
    }
}

async fn accept(listener: TcpListener, mut way: watch::Receiver<Way>) {
    let mut gone = way.clone();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut gone) => return,
        };
        // A connection that ends before it is accepted is none.
        let Ok((stream, _)) = stream else { continue };
        let number = way.borrow_and_update().number;
        let passing = way.clone();
        let mut turning = way.clone();
        tokio::spawn(async move {
            let (mut near_in, mut near_out) = stream.into_split();
            let is_lost = tokio::select! {
                // How it ends is told to both sides by their ends.
                _ = pass(&mut near_in, &mut near_out, passing) => false,
                turned = turning.wait_for(|way| way.number != number) => turned.is_ok_and(|way| way.is_lost),
            };
            if is_lost {
                // Until the near side gives up, or the forwarder is dropped.
                let mut nowhere = tokio::io::sink();
                tokio::select! {
                    _ = tokio::io::copy(&mut near_in, &mut nowhere) => {}
                    () = ended(&mut turning) => {}
                }
            }
        });
    }
}

/// Until the forwarder is dropped.
async fn ended(way: &mut watch::Receiver<Way>) {
    while way.changed().await.is_ok() {}
}

async fn pass(
    near_in: &mut OwnedReadHalf,
    near_out: &mut OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
) -> std::io::Result<()> {
    let open = way.wait_for(|way| !way.is_stalled).await.map(|way| way.target);
    let Ok(Some(target)) = open else { return Ok(()) };
    let far = TcpStream::connect(target).await?;
    near_in.as_ref().set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (far_in, far_out) = far.into_split();
    tokio::try_join!(copy(near_in, far_out, way.clone()), copy(far_in, near_out, way))?;
    Ok(())
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut way: watch::Receiver<Way>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if way.wait_for(|way| !way.is_stalled).await.is_err() {
            return Ok(());
        }
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..length).unwrap_or_default()).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Says its name on every connection, then whatever it hears.
    async fn server(name: u8) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    stream.write_all(&[name]).await.unwrap();
                    let (mut from, mut to) = stream.split();
                    let _ends = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn next(stream: &mut TcpStream) -> Option<u8> {
        timeout(Duration::from_secs(5), stream.read_u8()).await.expect("silence").ok()
    }

    #[tokio::test]
    async fn connections_end_with_their_way() {
        let (one, two) = (server(1).await, server(2).await);
        let forwarder = Forwarder::start(one).await.unwrap();
        let mut stream = TcpStream::connect(forwarder.address()).await.unwrap();
        assert_eq!(next(&mut stream).await, Some(1));
        forwarder.lead_to(two);
        assert_eq!(next(&mut stream).await, None);
        let mut stream = TcpStream::connect(forwarder.address()).await.unwrap();
        assert_eq!(next(&mut stream).await, Some(2));
        forwarder.cut();
        assert_eq!(next(&mut stream).await, None);
        let mut stream = TcpStream::connect(forwarder.address()).await.unwrap();
        assert_eq!(next(&mut stream).await, None);
    }

    #[tokio::test]
    async fn what_vanishes_ends_nothing_and_says_nothing() {
        let (one, two) = (server(1).await, server(2).await);
        let forwarder = Forwarder::start(one).await.unwrap();
        let mut stream = TcpStream::connect(forwarder.address()).await.unwrap();
        assert_eq!(next(&mut stream).await, Some(1));
        forwarder.vanish(two);
        stream.write_all(&[7]).await.unwrap();
        assert!(timeout(Duration::from_millis(100), stream.read_u8()).await.is_err());
        let mut other = TcpStream::connect(forwarder.address()).await.unwrap();
        assert_eq!(next(&mut other).await, Some(2));
        forwarder.cut();
        assert!(timeout(Duration::from_millis(100), stream.read_u8()).await.is_err(), "it is lost");
        assert_eq!(next(&mut other).await, None);
        drop(forwarder);
        assert_eq!(next(&mut stream).await, None);
    }

    #[tokio::test]
    async fn what_is_sent_while_nothing_passes_arrives_afterwards() {
        let forwarder = Forwarder::start(server(1).await).await.unwrap();
        let mut stream = TcpStream::connect(forwarder.address()).await.unwrap();
        assert_eq!(next(&mut stream).await, Some(1));
        forwarder.stall(true);
        stream.write_all(&[7, 8]).await.unwrap();
        assert!(timeout(Duration::from_millis(100), stream.read_u8()).await.is_err());
        forwarder.stall(false);
        assert_eq!((next(&mut stream).await, next(&mut stream).await), (Some(7), Some(8)));
    }
}
