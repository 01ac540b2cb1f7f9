# Problems of every service.
VALIDATION_FAILED = The request is not valid
    .detail = Correct the members that errors lists.
UNAUTHORIZED = Sign in first
    .detail = The token is missing, expired or not accepted by this API.
FORBIDDEN = You do not have permission to do this
NOT_FOUND = Not found
METHOD_NOT_ALLOWED = This method is not allowed
UNSUPPORTED_MEDIA_TYPE = The body must be application/json
REQUEST_TIMEOUT = The body arrived too slowly
PAYLOAD_TOO_LARGE = The body is too large
    .detail = At most { $max } bytes are accepted.
RATE_LIMITED = Too many requests
    .detail = Try again after the time in Retry-After.
SERVICE_UNAVAILABLE = The service is temporarily unavailable
    .detail = Try again after the time in Retry-After.
OUTCOME_UNKNOWN = We do not know whether your change was saved
    .detail = Check whether it was saved before you send it again, or repeat the request with the same Idempotency-Key.
IDEMPOTENCY_KEY_IN_USE = The first request with this Idempotency-Key is still in progress
    .detail = Repeat the request in a moment.
IDEMPOTENCY_KEY_REUSED = Another request has already used this Idempotency-Key
    .detail = Send each new request with a new key.
INTERNAL_ERROR = Something went wrong on our side

# Reasons for the refusal of a member.
malformed = This is not valid JSON
invalid_type = The value has the wrong type
required = This is required
duplicate = This occurs more than once
too_short = { $min ->
    [one] At least one character is required
   *[other] At least { $min } characters are required
}
too_long = { $max ->
    [one] At most one character is allowed
   *[other] At most { $max } characters are allowed
}
forbidden_character = The text contains a character that cannot be stored
out_of_range = The value must be from { $min } to { $max }
out_of_bounds = The value is outside the allowed range
too_precise = The value has too many decimal places
bad_email = This is not an e-mail address
bad_phone = This is not a phone number
personal_data = This must not contain personal data
secret = This must not contain a password, a key or a token
bad_url = This is not a web address such as https://example.org
empty_id = The nil UUID is not a valid id
unknown_value = The value is not one of the allowed values
empty_range = The end must be after the start
too_few = { $min ->
    [one] At least one item is required
   *[other] At least { $min } items are required
}
too_many = { $max ->
    [one] At most one item is allowed
   *[other] At most { $max } items are allowed
}
