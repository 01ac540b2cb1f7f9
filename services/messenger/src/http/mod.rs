//! The HTTP edge: the routes of the public port.

mod chat;
mod conference;
mod member;
mod message;
mod stream;
mod webhook;

use ::web::{Callers, EMPTY_ID, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    CHAT_FULL, CHAT_NOT_DEAL, CHAT_NOT_FOUND, CONFERENCE_ALREADY_ACTIVE, CONFERENCE_ENDED, CONFERENCE_FULL,
    CONFERENCE_NOT_FOUND, FORBIDDEN, MEDIA_UNAVAILABLE, MEMBER_OF_DEAL, MESSAGE_DELETED, MESSAGE_LOCKED,
    MESSAGE_NOT_FOUND, PARTICIPANT_NOT_FOUND, PARTICIPANT_REMOVED,
};

/// The operations of members and the webhook of LiveKit.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Chats", "Chats and their members."),
        ("Messages", "Messages of a chat."),
        ("Conferences", "Audio and video calls in deal chats."),
        ("Stream", "Live events of all own chats."),
        ("Webhooks", "Webhooks of the media server."),
    ],
    routes: public,
};

/// Refusals of every change of a chat's members.
const MEMBER_CHANGE_REFUSALS: [Code; 4] = [EMPTY_ID, CHAT_NOT_FOUND, FORBIDDEN, CHAT_NOT_DEAL];

/// Refusals of every change of a message.
const MESSAGE_CHANGE_REFUSALS: [Code; 4] = [CHAT_NOT_FOUND, MESSAGE_NOT_FOUND, FORBIDDEN, MESSAGE_LOCKED];

/// Refusals of every change of a conference.
const CONFERENCE_REFUSALS: [Code; 2] = [CONFERENCE_NOT_FOUND, FORBIDDEN];

fn public(routes: &mut Routes<'_>) {
    // LiveKit signs its requests and has no token of the issuer.
    routes.service(webhook::receive_livekit_webhook);
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(chat::list_chats.refuses([FORBIDDEN]))
            .service(chat::count_unread)
            .service(chat::open_chat.refuses([PARTICIPANT_NOT_FOUND]))
            .service(chat::get_chat.refuses([CHAT_NOT_FOUND]))
            .service(chat::read_chat.refuses([CHAT_NOT_FOUND]))
            .service(member::add_member.refuses(MEMBER_CHANGE_REFUSALS).refuses([CHAT_FULL]))
            .service(
                member::remove_member
                    .refuses(MEMBER_CHANGE_REFUSALS)
                    .refuses([PARTICIPANT_NOT_FOUND, MEMBER_OF_DEAL]),
            )
            .service(message::list_messages.refuses([CHAT_NOT_FOUND]))
            .service(message::send_message.refuses([CHAT_NOT_FOUND]))
            .service(message::edit_message.refuses(MESSAGE_CHANGE_REFUSALS).refuses([MESSAGE_DELETED]))
            .service(message::delete_message.refuses(MESSAGE_CHANGE_REFUSALS))
            .service(stream::open_stream)
            .service(conference::start_conference.refuses([
                CHAT_NOT_FOUND,
                CHAT_NOT_DEAL,
                PARTICIPANT_NOT_FOUND,
                CONFERENCE_ALREADY_ACTIVE,
                MEDIA_UNAVAILABLE,
            ]))
            .service(conference::list_conferences.refuses([CHAT_NOT_FOUND]))
            .service(conference::get_conference.refuses([CONFERENCE_NOT_FOUND]))
            .service(conference::invite_to_conference.refuses(CONFERENCE_REFUSALS).refuses([
                PARTICIPANT_REMOVED,
                CONFERENCE_ENDED,
                PARTICIPANT_NOT_FOUND,
                CONFERENCE_FULL,
            ]))
            .service(conference::join_conference.refuses(CONFERENCE_REFUSALS).refuses([
                PARTICIPANT_REMOVED,
                CONFERENCE_ENDED,
                CONFERENCE_FULL,
                MEDIA_UNAVAILABLE,
            ]))
            .service(conference::refresh_media_token.refuses(CONFERENCE_REFUSALS).refuses([
                PARTICIPANT_REMOVED,
                CONFERENCE_ENDED,
                PARTICIPANT_NOT_FOUND,
                MEDIA_UNAVAILABLE,
            ]))
            .service(
                conference::leave_conference.refuses(CONFERENCE_REFUSALS).refuses([PARTICIPANT_NOT_FOUND]),
            )
            .service(
                conference::decline_conference.refuses(CONFERENCE_REFUSALS).refuses([PARTICIPANT_NOT_FOUND]),
            )
            .service(
                conference::remove_participant.refuses(CONFERENCE_REFUSALS).refuses([PARTICIPANT_NOT_FOUND]),
            )
            .service(conference::end_conference.refuses(CONFERENCE_REFUSALS)),
    );
}
