//! The events of a stream, as clients receive them and the OpenAPI document describes them.

use std::borrow::Cow;

use auth::UserId;
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::db::chat_view::ChatView;
use crate::domain::{ChatId, Conference, Message};

pub const READY: &str = "ready";
pub const RESET: &str = "reset";

/// The first event of a stream.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Ready {
    /// True if the events after `Last-Event-ID` follow.
    pub resumed: bool,
}

/// The first event of a stream that cannot resume. The client reads its lists again.
#[derive(Serialize, ToSchema)]
pub struct Reset {}

/// A chat of which the user is no longer a member.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RemovedChat {
    pub chat_id: ChatId,
}

/// The read marker of a member, after it rose.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RaisedReadMarker {
    pub chat_id: ChatId,
    /// `Sequence` of the last message that the member has read.
    pub read_sequence: i64,
    /// Id of the member who has read.
    pub user_id: UserId,
}

/// An event of the stream. `event` is its name, and `data` is one line of JSON.
#[derive(Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schema(as = StreamEvent)]
#[expect(dead_code, reason = "the type of the OpenAPI document; frames are written from their parts")]
pub enum DocumentedEvent {
    Ready(ReadyFrame),
    Reset(ResetFrame),
    Chat(ChatFrame),
    ChatRemoved(ChatRemovedFrame),
    Message(MessageFrame),
    Read(ReadFrame),
    Conference(ConferenceFrame),
}

/// Declares the frame of one event.
macro_rules! frame {
    ($(#[$doc:meta])* $name:ident, $data:ident) => {
        $(#[$doc])*
        #[derive(Serialize, ToSchema)]
        pub struct $name {
            /// Number of the event. `Last-Event-ID` sends it back.
            #[schema(pattern = "^[0-9]+$", examples("42"))]
            id: String,
            /// The content at the time of sending.
            data: $data,
        }
    };
}

frame!(
    /// The stream is open. Its events begin here, or after `Last-Event-ID`.
    ReadyFrame,
    Ready
);
frame!(
    /// The events after `Last-Event-ID` are no longer stored, so the client reads its lists again.
    ResetFrame,
    Reset
);
frame!(
    /// A new chat, or a chat after a change of its members, their roles, the caller's block or
    /// `ClosedAt`.
    ChatFrame,
    ChatView
);
frame!(
    /// The user is no longer a member of the chat, and receives none of its later events.
    ChatRemovedFrame,
    RemovedChat
);
frame!(
    /// A new, edited or deleted message.
    MessageFrame,
    Message
);
frame!(
    /// A member has read further.
    ReadFrame,
    RaisedReadMarker
);
frame!(
    /// A conference after a change.
    ConferenceFrame,
    Conference
);

/// The body of a stream, for the document.
pub struct EventStream;

impl PartialSchema for EventStream {
    fn schema() -> RefOr<Schema> {
        let mut text = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Events in the format of Server-Sent Events. Lines that begin with `:` keep the connection open."))
            .examples([json!("id: 42\nevent: read\ndata: {\"ChatId\":\"01932b4e-7c1a-7d3e-9f00-d9029b16f2f7\",\"UserId\":\"01932b4e-7c1a-7d3e-9f00-d9466e7619d5\",\"ReadSequence\":7}\n\n")])
            .build();
        "text/event-stream".clone_into(&mut text.content_media_type);
        let events = ArrayBuilder::new().items(Ref::from_schema_name(DocumentedEvent::name()));
        text.content_schema = Some(Box::new(events.into()));
        text.into()
    }
}

impl ToSchema for EventStream {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("EventStream")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((DocumentedEvent::name().into_owned(), DocumentedEvent::schema()));
        DocumentedEvent::schemas(schemas);
    }
}
