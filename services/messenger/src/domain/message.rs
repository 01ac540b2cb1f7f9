//! Messages, and the rules for their texts, edits and deletions.

use std::time::Duration;

use ::db::Json;
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Invalid, Private, Rule, Text};

use super::{Card, ChatId, ClientMessageId, MessageId};
use crate::error::{Error, FORBIDDEN, MESSAGE_DELETED, MESSAGE_LOCKED};
use crate::schema::message;

/// The text of a message, stored exactly as the client sent it.
pub type MessageText = Checked<MessageTextRule>;
/// The text of a message, which logs never show.
pub type PrivateText = Private<MessageText>;

/// The rule for a text: 1 to 4,000 characters, at least one neither white space nor invisible.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessageTextRule {}

type BoundedText = Text<1, 4000>;

impl Rule for MessageTextRule {
    fn parse(raw: &str) -> Result<String, Invalid> {
        BoundedText::parse(raw)?;
        Ok(raw.to_owned())
    }

    fn name() -> String {
        "MessageText".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length(Some(1)).max_length(Some(BoundedText::MAX)).pattern(Some(r"\S"))
    }
}

values::text_enum! {
    /// The kind of a message.
    pub enum MessageKind {
        /// A text of a member.
        Text,
        /// A card of the service.
        System,
    }
}

/// The aggregate, its row and its representation in responses.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = message, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Message {
    pub id: MessageId,
    pub chat_id: ChatId,
    /// Position in the chat: 1, 2, 3 …
    #[schema(minimum = 1)]
    pub sequence: i64,
    pub kind: MessageKind,
    /// Id of the sender. Null for a System message.
    pub sender_user_id: Option<UserId>,
    /// Id that the sender chose. A repeat with the same id creates nothing.
    pub client_message_id: Option<ClientMessageId>,
    /// The text. `null` for a System message and after the deletion.
    pub text: Option<PrivateText>,
    /// The card of a System message.
    #[schema(value_type = Option<Card>)]
    pub card: Option<Json<Card>>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Time of the latest edit, in UTC. Null without one.
    #[serde(with = "time::serde::rfc3339::option")]
    pub edited_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub deleted_at: Option<OffsetDateTime>,
    #[schema(minimum = 1)]
    pub version: i64,
}

impl Message {
    /// Replaces the text. Returns false if the text is the same already.
    ///
    /// # Errors
    /// - [`FORBIDDEN`]: `by` is not the sender.
    /// - [`MESSAGE_DELETED`]: the message is deleted.
    /// - [`MESSAGE_LOCKED`]: the message is older than `window`.
    pub fn edit(
        &mut self,
        by: UserId,
        text: PrivateText,
        window: Duration,
        now: OffsetDateTime,
    ) -> Result<bool, Error> {
        self.require_sender(by)?;
        if self.deleted_at.is_some() {
            return Err(MESSAGE_DELETED.into());
        }
        if self.text.as_ref() == Some(&text) {
            return Ok(false);
        }
        self.require_window(window, now)?;
        self.text = Some(text);
        // After the clock was set back, `now` may precede the message.
        self.edited_at = Some(now.max(self.created_at));
        self.version += 1;
        Ok(true)
    }

    /// Erases the text. Returns false if the message is deleted already.
    ///
    /// # Errors
    /// - [`FORBIDDEN`]: `by` is not the sender.
    /// - [`MESSAGE_LOCKED`]: the message is older than `window`.
    pub fn delete(&mut self, by: UserId, window: Duration, now: OffsetDateTime) -> Result<bool, Error> {
        self.require_sender(by)?;
        if self.deleted_at.is_some() {
            return Ok(false);
        }
        self.require_window(window, now)?;
        self.text = None;
        self.deleted_at = Some(now.max(self.created_at));
        self.version += 1;
        Ok(true)
    }

    fn require_sender(&self, by: UserId) -> Result<(), Error> {
        if self.sender_user_id == Some(by) { Ok(()) } else { Err(FORBIDDEN.into()) }
    }

    fn require_window(&self, window: Duration, now: OffsetDateTime) -> Result<(), Error> {
        if now - self.created_at < window { Ok(()) } else { Err(MESSAGE_LOCKED.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use auth::UserId;
    use time::OffsetDateTime;

    use super::{Message, MessageKind, MessageText, PrivateText};
    use crate::domain::{ChatId, MessageId};
    use crate::error::{FORBIDDEN, MESSAGE_DELETED, MESSAGE_LOCKED};

    fn text(text: &str) -> PrivateText {
        PrivateText::new(MessageText::parse(text).unwrap())
    }

    fn message_of(sender: UserId, at: OffsetDateTime) -> Message {
        Message {
            id: MessageId::generate(),
            chat_id: ChatId::generate(),
            sequence: 1,
            kind: MessageKind::Text,
            sender_user_id: Some(sender),
            client_message_id: None,
            text: Some(text("раз")),
            card: None,
            created_at: at,
            edited_at: None,
            deleted_at: None,
            version: 1,
        }
    }

    /// RULE-MSG-007: a message is locked when its window ends. An edit to the same text succeeds.
    #[test]
    fn message_can_be_changed_until_the_end_of_its_window() {
        let (sender, window) = (UserId::generate(), Duration::from_hours(24));
        let sent = OffsetDateTime::UNIX_EPOCH;
        let end = sent + window;
        let last = end - Duration::from_micros(1);
        assert!(message_of(sender, sent).edit(sender, text("два"), window, last).unwrap());
        assert!(message_of(sender, sent).delete(sender, window, last).unwrap());
        let locked = message_of(sender, sent).edit(sender, text("два"), window, end).unwrap_err();
        assert!(locked.is(MESSAGE_LOCKED), "{locked}");
        let locked = message_of(sender, sent).delete(sender, window, end).unwrap_err();
        assert!(locked.is(MESSAGE_LOCKED), "{locked}");
        assert!(!message_of(sender, sent).edit(sender, text("раз"), window, end).unwrap());
    }

    /// RULE-MSG-007: only the sender changes a message, and each change raises the version.
    #[test]
    fn message_is_changed_by_its_sender_until_its_deletion() {
        let (sender, other, window) = (UserId::generate(), UserId::generate(), Duration::from_hours(24));
        let sent = OffsetDateTime::UNIX_EPOCH;
        let at = sent + Duration::from_secs(5);
        let mut message = message_of(sender, sent);
        assert!(message.edit(other, text("два"), window, at).unwrap_err().is(FORBIDDEN));
        assert!(message.delete(other, window, at).unwrap_err().is(FORBIDDEN));
        assert!(!message.edit(sender, text("раз"), window, at).unwrap(), "the same text");
        assert_eq!((message.version, message.edited_at), (1, None));
        message.version = 2;
        assert!(message.edit(sender, text("два"), window, at).unwrap());
        assert_eq!((message.version, message.edited_at, &message.text), (3, Some(at), &Some(text("два"))));
        assert!(message.delete(sender, window, at).unwrap());
        assert_eq!((message.version, message.deleted_at, &message.text), (4, Some(at), &None));
        assert!(!message.delete(sender, window, at).unwrap(), "deleted already");
        assert!(message.edit(sender, text("три"), window, at).unwrap_err().is(MESSAGE_DELETED));
        let mut early = message_of(sender, at);
        assert!(early.edit(sender, text("два"), window, sent).unwrap());
        assert_eq!(early.edited_at, Some(at), "not before the message");
    }

    /// RULE-MSG-007: a text is kept as sent. It needs 1 to 4,000 characters, a visible one, and no
    /// NUL.
    #[test]
    fn text_is_parsed_without_changes_or_refused() {
        for text in [" a ", "\n\tдва\n", &"🏠".repeat(4000), "a\u{200b}", "a\u{1}"] {
            assert_eq!(MessageText::parse(text).unwrap().as_str(), text);
        }
        for (text, code) in [
            ("", "too_short"),
            (" ", "too_short"),
            ("\u{a0}\u{2003}\r\n\t\u{3000}", "too_short"),
            ("\u{feff} ", "too_short"),
            ("\u{200b}", "too_short"),
            (&"🏠".repeat(4001), "too_long"),
            (&" ".repeat(4001), "too_long"),
            ("a\0b", "forbidden_character"),
        ] {
            assert_eq!(MessageText::parse(text).unwrap_err().code, code, "{text:?}");
        }
    }
}
