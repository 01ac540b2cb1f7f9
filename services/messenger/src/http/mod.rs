//! The HTTP edge: the routes of the public port.

mod chat;
mod conference;
mod direct;
mod lobby;
mod member;
mod message;
mod report;
mod stream;
mod supervision;
mod webhook;

use ::web::{Callers, EMPTY_ID, Listener, OUTCOME_UNKNOWN, OperationExt, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use crate::domain::{ModerateDirectChats, SuperviseChats};
use crate::error::{
    ADMISSION_DENIED, ADMISSION_REQUIRED, CHAT_BLOCKED, CHAT_CLOSED, CHAT_FULL, CHAT_LEFT, CHAT_NOT_DEAL,
    CHAT_NOT_DIRECT, CHAT_NOT_FOUND, CONFERENCE_ALREADY_ACTIVE, CONFERENCE_ENDED, CONFERENCE_FULL,
    CONFERENCE_NOT_FOUND, CONFERENCES_LIMIT_EXCEEDED, EMPLOYMENT_ENDED, FORBIDDEN, MEDIA_UNAVAILABLE,
    MEMBER_OF_DEAL, MESSAGE_DELETED, MESSAGE_LOCKED, MESSAGE_NOT_FOUND, MESSAGES_LIMIT_EXCEEDED,
    PARTICIPANT_NOT_FOUND, PARTICIPANT_REMOVED, REPORT_DECIDED, REPORT_NOT_FOUND,
};

/// The operations of users, and the webhook of LiveKit.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Chats", "Chats and their members."),
        ("Messages", "Messages of a chat."),
        ("Conferences", "Audio and video calls in deal chats."),
        ("Reports", "Reports of Direct chats, which moderators decide."),
        ("Supervision", "All deal chats of one user, for supervisors."),
        ("Stream", "Live events of all own chats."),
        ("Webhooks", "Webhooks of the media server."),
    ],
    routes: public,
};

/// Refusals of every change of a chat's members.
const MEMBER_CHANGE_REFUSALS: [Code; 4] = [EMPTY_ID, CHAT_NOT_FOUND, FORBIDDEN, CHAT_NOT_DEAL];

/// Refusals of every change of a Direct chat by its users.
const DIRECT_REFUSALS: [Code; 2] = [CHAT_NOT_FOUND, CHAT_NOT_DIRECT];

/// Refusals of a text in a Direct chat.
const TEXT_REFUSALS: [Code; 3] = [CHAT_CLOSED, CHAT_BLOCKED, CHAT_LEFT];

/// Refusals of every operation of a moderator on a report.
const REPORT_REFUSALS: [Code; 3] = [FORBIDDEN, REPORT_NOT_FOUND, REPORT_DECIDED];

/// Refusals of every change of a message.
const MESSAGE_CHANGE_REFUSALS: [Code; 4] = [CHAT_NOT_FOUND, MESSAGE_NOT_FOUND, FORBIDDEN, MESSAGE_LOCKED];

/// Refusals of every change of a conference.
const CONFERENCE_REFUSALS: [Code; 2] = [CONFERENCE_NOT_FOUND, FORBIDDEN];

// Descriptions of the callers whom the chat or the conference admits.
const MEMBERS: &str = "members of the chat";
const USERS_OF_DIRECT: &str = "the two users of a Direct chat, also after leaving it";
const SENDER: &str = "the sender, as a member of the chat";
const PARTICIPANTS: &str = "members of the chat with an entry in the conference";
const HOST: &str = "the host of the conference";
const HOST_OR_MODERATOR: &str = "the host, and users who moderate with `messenger.conferences.moderate`";

fn public(routes: &mut Routes<'_>) {
    // LiveKit signs its requests and has no token of the issuer.
    routes.service(webhook::receive_livekit_webhook);
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(chats)
            .configure(reports_and_supervision)
            .configure(members_and_messages)
            .configure(conferences)
            .configure(participants)
            .configure(lobbies),
    );
}

fn chats(routes: &mut Routes<'_>) {
    routes
        .service(
            chat::list_chats
                .admits("every user, for own chats; with `Scope=Tenant` users with `messenger.chats.manage`")
                .refuses([FORBIDDEN]),
        )
        .service(chat::count_unread.admits("every user, for own chats"))
        .service(
            chat::open_chat
                .admits("users who share a deal chat with the other user, or have a Direct chat with them")
                .refuses([PARTICIPANT_NOT_FOUND, CHAT_CLOSED, CHAT_BLOCKED]),
        )
        .service(
            chat::get_chat
                .admits("members of the chat, and users who supervise it with `messenger.chats.manage`")
                .refuses([CHAT_NOT_FOUND]),
        )
        .service(chat::read_chat.admits(MEMBERS).refuses([CHAT_NOT_FOUND]))
        .service(direct::leave_chat.admits(MEMBERS).refuses(DIRECT_REFUSALS))
        .service(direct::block_chat.admits(USERS_OF_DIRECT).refuses(DIRECT_REFUSALS))
        .service(direct::unblock_chat.admits(USERS_OF_DIRECT).refuses(DIRECT_REFUSALS))
        .service(direct::report_chat.admits(USERS_OF_DIRECT).refuses(DIRECT_REFUSALS));
}

/// Adds the operations on reports of Direct chats, and on all chats of one user.
fn reports_and_supervision(routes: &mut Routes<'_>) {
    routes
        .service(report::list_reports.requires::<Permitted<ModerateDirectChats>>().refuses([FORBIDDEN]))
        // The service records the reading, and the outcome of that commit may be unknown.
        .service(
            report::list_reported_messages
                .requires::<Permitted<ModerateDirectChats>>()
                .refuses(REPORT_REFUSALS)
                .refuses([OUTCOME_UNKNOWN]),
        )
        .service(
            report::close_reported_chat.requires::<Permitted<ModerateDirectChats>>().refuses(REPORT_REFUSALS),
        )
        .service(report::dismiss_report.requires::<Permitted<ModerateDirectChats>>().refuses(REPORT_REFUSALS))
        .service(supervision::list_member_chats.requires::<Permitted<SuperviseChats>>().refuses([FORBIDDEN]))
        .service(
            supervision::hand_over_chats
                .requires::<Permitted<SuperviseChats>>()
                .refuses([FORBIDDEN, EMPLOYMENT_ENDED]),
        );
}

fn members_and_messages(routes: &mut Routes<'_>) {
    routes
        .service(
            member::add_member
                .admits("users who supervise the chat with `messenger.chats.manage`")
                .refuses(MEMBER_CHANGE_REFUSALS)
                .refuses([EMPLOYMENT_ENDED, CHAT_FULL]),
        )
        .service(
            member::remove_member
                .admits(
                    "users who supervise the chat with `messenger.chats.manage`, and members for themselves",
                )
                .refuses(MEMBER_CHANGE_REFUSALS)
                .refuses([PARTICIPANT_NOT_FOUND, MEMBER_OF_DEAL]),
        )
        .service(message::list_messages.admits(MEMBERS).refuses([CHAT_NOT_FOUND]))
        .service(
            message::send_message
                .admits(MEMBERS)
                .refuses([CHAT_NOT_FOUND, MESSAGES_LIMIT_EXCEEDED])
                .refuses(TEXT_REFUSALS),
        )
        .service(
            message::edit_message
                .admits(SENDER)
                .refuses(MESSAGE_CHANGE_REFUSALS)
                .refuses([MESSAGE_DELETED, MESSAGES_LIMIT_EXCEEDED])
                .refuses(TEXT_REFUSALS),
        )
        .service(message::delete_message.admits(SENDER).refuses(MESSAGE_CHANGE_REFUSALS))
        .service(stream::open_stream.admits("every user, for own chats"));
}

fn conferences(routes: &mut Routes<'_>) {
    routes
        .service(conference::start_conference.admits(MEMBERS).refuses([
            CHAT_NOT_FOUND,
            CHAT_NOT_DEAL,
            PARTICIPANT_NOT_FOUND,
            CONFERENCE_ALREADY_ACTIVE,
            CONFERENCES_LIMIT_EXCEEDED,
            MEDIA_UNAVAILABLE,
        ]))
        .service(conference::list_conferences.admits(MEMBERS).refuses([CHAT_NOT_FOUND]))
        .service(
            conference::get_conference
                .admits("members of the chat, and users who moderate with `messenger.conferences.moderate`")
                .refuses([CONFERENCE_NOT_FOUND]),
        )
        .service(conference::invite_to_conference.admits(MEMBERS).refuses(CONFERENCE_REFUSALS).refuses([
            PARTICIPANT_REMOVED,
            CONFERENCE_ENDED,
            ADMISSION_REQUIRED,
            ADMISSION_DENIED,
            PARTICIPANT_NOT_FOUND,
            CONFERENCE_FULL,
        ]))
        .service(conference::join_conference.admits(MEMBERS).refuses(CONFERENCE_REFUSALS).refuses([
            PARTICIPANT_REMOVED,
            CONFERENCE_ENDED,
            ADMISSION_REQUIRED,
            ADMISSION_DENIED,
            CONFERENCE_FULL,
            MEDIA_UNAVAILABLE,
        ]))
        .service(
            conference::refresh_media_token
                .admits("members of the chat who are Joined, or Left because a connection broke")
                .refuses(CONFERENCE_REFUSALS)
                .refuses([
                    PARTICIPANT_REMOVED,
                    CONFERENCE_ENDED,
                    PARTICIPANT_NOT_FOUND,
                    CONFERENCE_FULL,
                    MEDIA_UNAVAILABLE,
                ]),
        );
}

/// Adds the operations that end the participation of a user, or change the host.
fn participants(routes: &mut Routes<'_>) {
    routes
        .service(
            conference::leave_conference
                .admits(PARTICIPANTS)
                .refuses(CONFERENCE_REFUSALS)
                .refuses([PARTICIPANT_NOT_FOUND]),
        )
        .service(
            conference::decline_conference
                .admits(PARTICIPANTS)
                .refuses(CONFERENCE_REFUSALS)
                .refuses([PARTICIPANT_NOT_FOUND]),
        )
        .service(
            conference::remove_participant
                .admits(HOST_OR_MODERATOR)
                .refuses(CONFERENCE_REFUSALS)
                .refuses([PARTICIPANT_NOT_FOUND]),
        )
        .service(conference::end_conference.admits(HOST_OR_MODERATOR).refuses(CONFERENCE_REFUSALS))
        .service(
            conference::hand_over_conference
                .admits(HOST)
                .refuses(CONFERENCE_REFUSALS)
                .refuses([CONFERENCE_ENDED, PARTICIPANT_NOT_FOUND]),
        );
}

fn lobbies(routes: &mut Routes<'_>) {
    routes
        .service(lobby::knock_at_conference.admits(MEMBERS).refuses(CONFERENCE_REFUSALS).refuses([
            PARTICIPANT_REMOVED,
            CONFERENCE_ENDED,
            ADMISSION_DENIED,
        ]))
        .service(lobby::admit_participant.admits(HOST).refuses(CONFERENCE_REFUSALS).refuses([
            CONFERENCE_ENDED,
            PARTICIPANT_NOT_FOUND,
            CONFERENCE_FULL,
        ]))
        .service(
            lobby::deny_participant
                .admits(HOST)
                .refuses(CONFERENCE_REFUSALS)
                .refuses([CONFERENCE_ENDED, PARTICIPANT_NOT_FOUND]),
        );
}
