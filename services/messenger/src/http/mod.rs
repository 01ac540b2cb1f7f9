//! The HTTP edge: the routes of the public port.

mod chat;
mod member;
mod message;

use ::web::{Callers, EMPTY_ID, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    CHAT_FULL, CHAT_NOT_DEAL, CHAT_NOT_FOUND, FORBIDDEN, MEMBER_OF_DEAL, MESSAGE_DELETED, MESSAGE_LOCKED,
    MESSAGE_NOT_FOUND, PARTICIPANT_NOT_FOUND,
};

/// What members of chats do, and what LiveKit tells.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::People,
    tags: &[
        ("Chats", "Chats, and who is in them."),
        ("Messages", "What is said in a chat."),
        ("Conferences", "Calls in the chats of deals."),
        ("Stream", "What happens, as it happens."),
        ("Webhooks", "What the media server tells."),
    ],
    routes: public,
};

/// What whoever changes the members of a chat may meet.
const MEMBERS: [Code; 4] = [EMPTY_ID, CHAT_NOT_FOUND, FORBIDDEN, CHAT_NOT_DEAL];

/// What whoever changes a message may meet.
const OWN_MESSAGE: [Code; 4] = [CHAT_NOT_FOUND, MESSAGE_NOT_FOUND, FORBIDDEN, MESSAGE_LOCKED];

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(chat::list_chats.refuses([FORBIDDEN]))
            .service(chat::count_unread)
            .service(chat::open_chat.refuses([PARTICIPANT_NOT_FOUND]))
            .service(chat::get_chat.refuses([CHAT_NOT_FOUND]))
            .service(chat::read_chat.refuses([CHAT_NOT_FOUND]))
            .service(member::add_member.refuses(MEMBERS).refuses([CHAT_FULL]))
            .service(member::remove_member.refuses(MEMBERS).refuses([PARTICIPANT_NOT_FOUND, MEMBER_OF_DEAL]))
            .service(message::list_messages.refuses([CHAT_NOT_FOUND]))
            .service(message::send_message.refuses([CHAT_NOT_FOUND]))
            .service(message::edit_message.refuses(OWN_MESSAGE).refuses([MESSAGE_DELETED]))
            .service(message::delete_message.refuses(OWN_MESSAGE)),
    );
}
