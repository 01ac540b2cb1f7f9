# Problems that every area can answer.
VALIDATION_FAILED = The request is not valid
    .detail = See the errors for what to mend.
UNAUTHORIZED = Sign in first
    .detail = The token is missing, expired or not valid here.
FORBIDDEN = This is not allowed to you
NOT_FOUND = There is nothing here
METHOD_NOT_ALLOWED = This method is not allowed here
UNSUPPORTED_MEDIA_TYPE = Send the body as application/json
REQUEST_TIMEOUT = The body came too slowly
PAYLOAD_TOO_LARGE = The body is too large
    .detail = At most { $max } bytes are accepted here.
RATE_LIMITED = Too many requests
    .detail = Wait as long as Retry-After says, then try again.
SERVICE_UNAVAILABLE = The service is unavailable for a moment
    .detail = Wait as long as Retry-After says, then try again.
INTERNAL_ERROR = Something went wrong on our side

# Why a member was refused.
malformed = This is not valid JSON
invalid_type = The value has the wrong type
required = This is required
duplicate = This is there twice
too_short = { $min ->
    [one] At least one character is required
   *[other] At least { $min } characters are required
}
too_long = { $max ->
    [one] At most one character is allowed
   *[other] At most { $max } characters are allowed
}
forbidden_character = The text holds a character that cannot be stored
out_of_range = The value must be from { $min } to { $max }
out_of_bounds = The value is beyond its bounds
too_precise = The value has too many decimal places
bad_email = This is not an e-mail address
bad_phone = This is not a phone number
personal_data = No person may be told of here
bad_url = This is not an address of the web, as in https://example.org
empty_id = The empty id is nobody's
unknown_value = The value is not one of those allowed
empty_range = The end must be after the start
too_few = { $min ->
    [one] At least one item is required
   *[other] At least { $min } items are required
}
too_many = { $max ->
    [one] At most one item is allowed
   *[other] At most { $max } items are allowed
}
