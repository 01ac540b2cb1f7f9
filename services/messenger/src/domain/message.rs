//! A message.

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
use crate::db::schema::message;
use crate::error::{Error, FORBIDDEN, MESSAGE_DELETED, MESSAGE_LOCKED};

/// What somebody writes, as it was sent.
pub type MessageText = Checked<Written>;
/// The same for everybody whom it is not for.
pub type PrivateText = Private<MessageText>;

/// 1 to 4,000 characters, not white space alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {}

type Bounded = Text<1, 4000>;

impl Rule for Written {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Bounded::parse(raw)?;
        // A mark of byte order is white space to readers of the document's pattern, and nothing to those of the text.
        if raw.chars().all(|char| char.is_whitespace() || char == '\u{feff}') {
            return Err(Invalid::new("too_short").with("min", 1));
        }
        Ok(raw.to_owned())
    }

    fn name() -> String {
        "MessageText".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.min_length(Some(1)).max_length(Some(Bounded::MAX)).pattern(Some(r"\S"))
    }
}

values::text_enum! {
    /// Who speaks.
    pub enum MessageKind {
        /// Somebody, in words.
        Text,
        /// Nobody, by a card.
        System,
    }
}

/// The aggregate, which is also its row and its answer.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = message, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Message {
    pub id: MessageId,
    pub chat_id: ChatId,
    /// The messages of a chat are 1, 2, 3 ….
    #[schema(minimum = 1)]
    pub sequence: i64,
    pub kind: MessageKind,
    pub sender_user_id: Option<UserId>,
    pub client_message_id: Option<ClientMessageId>,
    /// `null` of a System message, and once it was deleted.
    pub text: Option<PrivateText>,
    /// Of a System message.
    #[schema(value_type = Option<Card>)]
    pub card: Option<Json<Card>>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub edited_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub deleted_at: Option<OffsetDateTime>,
    #[schema(minimum = 1)]
    pub version: i64,
}

impl Message {
    /// `false`: it says so already.
    ///
    /// # Errors
    /// [`FORBIDDEN`], [`MESSAGE_DELETED`], [`MESSAGE_LOCKED`]
    pub fn edit(
        &mut self,
        by: UserId,
        text: PrivateText,
        window: Duration,
        now: OffsetDateTime,
    ) -> Result<bool, Error> {
        self.refuse_others(by)?;
        if self.deleted_at.is_some() {
            return Err(MESSAGE_DELETED.into());
        }
        if self.text.as_ref() == Some(&text) {
            return Ok(false);
        }
        self.refuse_late(window, now)?;
        self.text = Some(text);
        self.edited_at = Some(now.max(self.created_at));
        self.version += 1;
        Ok(true)
    }

    /// `false`: it was deleted already.
    ///
    /// # Errors
    /// [`FORBIDDEN`], [`MESSAGE_LOCKED`]
    pub fn delete(&mut self, by: UserId, window: Duration, now: OffsetDateTime) -> Result<bool, Error> {
        self.refuse_others(by)?;
        if self.deleted_at.is_some() {
            return Ok(false);
        }
        self.refuse_late(window, now)?;
        self.text = None;
        self.deleted_at = Some(now.max(self.created_at));
        self.version += 1;
        Ok(true)
    }

    fn refuse_others(&self, by: UserId) -> Result<(), Error> {
        if self.sender_user_id == Some(by) { Ok(()) } else { Err(FORBIDDEN.into()) }
    }

    fn refuse_late(&self, window: Duration, now: OffsetDateTime) -> Result<(), Error> {
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
    use crate::error::MESSAGE_LOCKED;

    fn text(text: &str) -> PrivateText {
        PrivateText::new(MessageText::parse(text).unwrap())
    }

    /// What somebody has just said.
    fn said(sender: UserId, at: OffsetDateTime) -> Message {
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

    /// Section 2: for 24 h, of which the end is none; what changes nothing is never too late.
    #[test]
    fn a_message_is_its_senders_until_the_window_ends() {
        let (sender, window) = (UserId::generate(), Duration::from_hours(24));
        let sent = OffsetDateTime::UNIX_EPOCH;
        let end = sent + window;
        let last = end - Duration::from_micros(1);
        assert!(said(sender, sent).edit(sender, text("два"), window, last).unwrap());
        assert!(said(sender, sent).delete(sender, window, last).unwrap());
        let locked = said(sender, sent).edit(sender, text("два"), window, end).unwrap_err();
        assert!(locked.is(MESSAGE_LOCKED), "{locked}");
        let locked = said(sender, sent).delete(sender, window, end).unwrap_err();
        assert!(locked.is(MESSAGE_LOCKED), "{locked}");
        assert!(!said(sender, sent).edit(sender, text("раз"), window, end).unwrap());
    }

    /// Section 2, Text: as it was sent, of 1 to 4,000 characters, not white space alone, no NUL.
    #[test]
    fn a_text_is_kept_as_it_was_sent() {
        for text in [" a ", "\n\tдва\n", &"🏠".repeat(4000), "\u{200b}", "a\u{1}"] {
            assert_eq!(MessageText::parse(text).unwrap().as_str(), text);
        }
        for (text, code) in [
            ("", "too_short"),
            (" ", "too_short"),
            ("\u{a0}\u{2003}\r\n\t\u{3000}", "too_short"),
            ("\u{feff} ", "too_short"),
            (&"🏠".repeat(4001), "too_long"),
            (&" ".repeat(4001), "too_long"),
            ("a\0b", "forbidden_character"),
        ] {
            assert_eq!(MessageText::parse(text).unwrap_err().code, code, "{text:?}");
        }
    }
}
