//! Lines of JSON over a pair of byte streams.
//!
//! What a line holds is the protocol crate's business; what happens to bytes is decided here:
//!
//! - Bytes that are not UTF-8, and escapes of half a surrogate pair, become U+FFFD. One broken
//!   character does not end a connection.
//! - Blank lines and byte order marks are passed over, and lines may end with CRLF.
//! - A line beyond [`LONGEST_LINE`] is answered with an error and not kept.
//! - What waits to be written goes out in one write, and a failing writer ends the connection. So
//!   does one that takes nothing for [`GRACE`] once the input has ended.
//! - An error does not carry the client's own message back.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use agent_client_protocol::schema::MaybeUndefined;
use agent_client_protocol::{
    Channel, ConnectTo, ConnectionDriver, Error, RawJsonRpcMessage, RawJsonRpcResponse, Role,
    TransportFrame,
};
use futures::channel::{mpsc, oneshot};
use futures::future::{self, Either, FutureExt as _};
use futures::stream::{self, Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio_util::sync::CancellationToken;

use crate::ServeError;
use crate::outbox::Room;

/// The longest line that is read, in bytes: twice what the common client libraries send.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// How much is put into one write, in bytes.
const BATCH: usize = 64 << 10;

/// How long a client that has ended its input may leave a write waiting.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// A pair of byte streams that carries one connection.
pub(crate) struct Transport<R, W> {
    pub(crate) reader: R,
    pub(crate) writer: W,
    pub(crate) room: Arc<Room>,
    pub(crate) broken: Broken,
}

/// The failure of a stream, in its own type; the protocol crate knows only its text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Broken(Arc<Mutex<Option<ServeError>>>);

impl Broken {
    pub(crate) fn take(&self) -> Option<ServeError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, error: ServeError) -> Error {
        let text = error.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Error::internal_error().data(text)
    }
}

impl<R, W, Peer: Role> ConnectTo<Peer> for Transport<R, W>
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    async fn connect_to(self, client: impl ConnectTo<Peer::Counterpart>) -> Result<(), Error> {
        let (channel, mut driver) = self.into_parts();
        let client = pin!(ConnectTo::<Peer>::connect_to(channel, client));
        match future::select(client, &mut driver).await {
            Either::Left((result, _)) => {
                result?;
                let _ = driver.request_finish();
                driver.await
            }
            Either::Right((result, _)) => result,
        }
    }

    fn into_channel_and_future(self) -> (Channel, Option<ConnectionDriver>) {
        let (channel, driver) = self.into_parts();
        (channel, Some(driver))
    }
}

impl<R, W> Transport<R, W>
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    fn into_parts(self) -> (Channel, ConnectionDriver) {
        let Self {
            reader,
            writer,
            room,
            broken,
        } = self;
        let (theirs, ours) = Channel::duplex();
        let (frames, incoming) = ours.into_parts();
        let (finish, finishing) = oneshot::channel();
        let (note, input_ended) = (broken.clone(), CancellationToken::new());
        let said_all = input_ended.clone();
        let reading = async move {
            match read(reader, &incoming, LONGEST_LINE).await {
                Ok(()) => {
                    said_all.cancel();
                    // Tells the other side that the input has ended; output may still go on.
                    drop(incoming);
                    future::pending().await
                }
                Err(error) => note.note(ServeError::Read(error)),
            }
        };
        let writing = async move {
            let _closed_when_done = room.close_on_drop();
            let frames = until_finished(frames, finishing);
            let written = write(frames, writer, &room, &input_ended).await;
            written.map_err(|error| broken.note(ServeError::Write(error)))
        };
        let driver = async move {
            match future::select(pin!(writing), pin!(reading)).await {
                Either::Left((result, _)) => result,
                Either::Right((error, _)) => Err(error),
            }
        };
        let finish = move || {
            // Fails only when the driver has ended.
            let _ = finish.send(());
        };
        (theirs, ConnectionDriver::with_finish(driver, finish))
    }
}

/// The frames that are accepted before `finishing` comes in.
fn until_finished(
    mut frames: mpsc::UnboundedReceiver<TransportFrame>,
    finishing: oneshot::Receiver<()>,
) -> impl Stream<Item = TransportFrame> + Send {
    let mut finishing = finishing.fuse();
    stream::poll_fn(move |context| {
        if let Poll::Ready(Ok(())) = Pin::new(&mut finishing).poll(context) {
            frames.close();
        }
        frames.poll_next_unpin(context)
    })
}

async fn read(
    reader: impl AsyncRead,
    incoming: &mpsc::UnboundedSender<TransportFrame>,
    longest: usize,
) -> io::Result<()> {
    let mut reader = pin!(BufReader::new(reader));
    while let Some(line) = next_line(&mut reader, longest).await? {
        let frame = match line {
            Line::Text(bytes) => parse(&String::from_utf8_lossy(&bytes)),
            Line::TooLong => Some(TransportFrame::Malformed {
                raw: String::new(),
                error: Error::invalid_request()
                    .data(json!(format!("a line may be {longest} bytes long at most"))),
            }),
        };
        if let Some(frame) = frame
            && incoming.unbounded_send(frame).is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}

enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// The next line without its end; `None` at the end of the input. A last line needs no end.
async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    longest: usize,
) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let (mut too_long, mut any) = (false, false);
    loop {
        let chunk = reader.fill_buf().await?;
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let piece = end.and_then(|end| chunk.get(..end)).unwrap_or(chunk);
        any |= !chunk.is_empty();
        if line.len() + piece.len() > longest {
            (too_long, line) = (true, Vec::new());
        } else if !too_long {
            line.extend_from_slice(piece);
        }
        let (used, at_end) = (
            end.map_or(chunk.len(), |end| end + 1),
            end.is_some() || chunk.is_empty(),
        );
        reader.consume(used);
        if at_end {
            let whole = if too_long {
                Line::TooLong
            } else {
                Line::Text(line)
            };
            return Ok(any.then_some(whole));
        }
    }
}

/// What a line says; `None` for one that says nothing.
fn parse(line: &str) -> Option<TransportFrame> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if line.is_empty() {
        return None;
    }
    let frame = TransportFrame::parse_json(line);
    let TransportFrame::Malformed { raw, error } = frame else {
        return Some(frame);
    };
    if let Some(repaired) = without_lone_surrogates(&raw)
        && let repaired @ TransportFrame::Single(_) = TransportFrame::parse_json(&repaired)
    {
        return Some(repaired);
    }
    // The crate's own error carries the line back, whatever its length.
    let error = Error::new(error.code, error.message)
        .data(json!("expected one JSON-RPC message on one line"));
    Some(TransportFrame::Malformed { raw, error })
}

/// Puts U+FFFD in the place of escapes of half a surrogate pair, as editors send them when a text
/// is cut inside an emoji; `None` if there are none.
fn without_lone_surrogates(json: &str) -> Option<String> {
    let escape = |at: usize| {
        let text = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(text, 16).ok()
    };
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let lone = match escape(at) {
            Some(0xD800..=0xDBFF) if matches!(escape(at + 6), Some(0xDC00..=0xDFFF)) => {
                at += 12;
                false
            }
            Some(0xD800..=0xDFFF) => true,
            // The escaped character itself may be a backslash.
            _ => {
                at += 2;
                false
            }
        };
        if lone {
            out.push_str(json.get(copied..at)?);
            out.push_str("\\ufffd");
            at += 6;
            copied = at;
        }
    }
    (copied > 0).then(|| out + json.get(copied..).unwrap_or_default())
}

async fn write(
    frames: impl Stream<Item = TransportFrame>,
    writer: impl AsyncWrite,
    room: &Room,
    input_ended: &CancellationToken,
) -> io::Result<()> {
    let (mut frames, mut writer) = (pin!(frames), pin!(writer));
    while let Some(frame) = frames.next().await {
        let (mut batch, mut updates) = (Vec::new(), 0);
        let mut next = Some(frame);
        while let Some(mut frame) = next {
            if let TransportFrame::Single(RawJsonRpcMessage::Notification(_)) = &frame {
                updates += 1;
            }
            drop_echo(&mut frame);
            match frame.to_json() {
                Ok(line) => {
                    batch.extend_from_slice(line.as_bytes());
                    batch.push(b'\n');
                }
                Err(error) => tracing::error!(%error, "a message has no JSON form"),
            }
            let more = batch.len() < BATCH;
            next = if more {
                frames.next().now_or_never().flatten()
            } else {
                None
            };
        }
        let mut rest = batch.as_slice();
        while !rest.is_empty() {
            if in_time(writer.write_buf(&mut rest), input_ended).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        in_time(writer.flush(), input_ended).await?;
        room.leave(updates);
    }
    in_time(writer.shutdown(), input_ended).await
}

/// Waits for one step of writing; no longer than [`GRACE`] once the input has ended. Before that, a
/// client may take its time.
async fn in_time<T>(
    step: impl Future<Output = io::Result<T>>,
    input_ended: &CancellationToken,
) -> io::Result<T> {
    let mut step = pin!(step);
    tokio::select! {
        biased;
        done = &mut step => return done,
        () = input_ended.cancelled() => {}
    }
    let waited = tokio::time::timeout(GRACE, step).await;
    waited.unwrap_or_else(|_| {
        let text = "the client has ended its input and does not read";
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Takes the parameters out of an error that says that they cannot be read: the protocol crate puts
/// them there, whatever their length.
fn drop_echo(frame: &mut TransportFrame) {
    if let TransportFrame::Single(RawJsonRpcMessage::Response(RawJsonRpcResponse::Error {
        error,
        ..
    })) = frame
        && let MaybeUndefined::Value(Value::Object(data)) = &mut error.data
        && data
            .get("phase")
            .is_some_and(|phase| phase == "deserialization")
    {
        data.remove("json");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(input: &[u8], longest: usize) -> Vec<String> {
        let (sender, mut receiver) = mpsc::unbounded();
        read(input, &sender, longest).await.unwrap();
        drop(sender);
        let mut frames = Vec::new();
        while let Some(frame) = receiver.next().await {
            frames.push(match frame {
                TransportFrame::Single(message) => serde_json::to_string(&message).unwrap(),
                TransportFrame::Malformed { error, .. } => serde_json::to_string(&error).unwrap(),
                _ => unreachable!("two kinds of frames"),
            });
        }
        frames
    }

    const PING: &str = r#"{"jsonrpc":"2.0","method":"ping"}"#;

    #[tokio::test]
    async fn what_is_no_message_between_lines_is_passed_over() {
        let input = format!("\u{feff}{PING}\r\n\n  \r\n\u{feff}\n{PING}");
        assert_eq!(frames(input.as_bytes(), 1000).await, [PING, PING]);
    }

    #[tokio::test]
    async fn a_byte_that_is_no_utf8_becomes_a_replacement_character() {
        let mut input = br#"{"jsonrpc":"2.0","method":"pi"#.to_vec();
        input.extend([0xff]);
        input.extend(br#"ng"}"#);
        let expected = PING.replace("ping", "pi\u{fffd}ng");
        assert_eq!(frames(&input, 1000).await, [expected]);
    }

    #[tokio::test]
    async fn half_a_surrogate_pair_becomes_a_replacement_character() {
        for (sent, read) in [
            (r"\ud83d", "\u{fffd}"),
            (r"\ude00x", "\u{fffd}x"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (r"\\ud83d\ud83d", "\\\\ud83d\u{fffd}"),
        ] {
            let input = PING.replace("ping", sent);
            let expected = PING.replace("ping", read);
            assert_eq!(frames(input.as_bytes(), 1000).await, [expected], "{sent}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_and_the_next_one_read() {
        let input = format!("{}\n{PING}\n", "x".repeat(100_000));
        let read = frames(input.as_bytes(), 50).await;
        assert!(read[0].contains("50 bytes"), "{}", read[0]);
        assert_eq!(read[1], PING);
        assert_eq!(read.len(), 2);
    }

    #[tokio::test]
    async fn what_is_no_json_is_answered_without_being_carried_back() {
        let [error] = <[String; 1]>::try_from(frames(b"secret {", 1000).await).unwrap();
        insta::assert_snapshot!(error, @r#"{"code":-32700,"message":"Parse error","data":"expected one JSON-RPC message on one line"}"#);
    }
}
