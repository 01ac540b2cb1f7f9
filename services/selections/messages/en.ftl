SELECTIONS_NOT_FOUND = There is no such selection
SELECTIONS_SNAPSHOT_NOT_FOUND = There is no such snapshot
SELECTIONS_CONCURRENCY_CONFLICT = The selection has changed meanwhile
    .detail = Read it again and repeat your change.
SELECTIONS_DUPLICATE_ITEM = A property object is in the list twice
SELECTIONS_ITEMS_LIMIT_EXCEEDED = The list is too long
    .detail = A selection holds at most { $max } property objects.
SELECTIONS_LIMIT_EXCEEDED = You have too many selections
    .detail = You may keep { $max } selections; delete one first.
SELECTIONS_FAVORITES_EMPTY = You have no favorites
SELECTIONS_FAVORITES_LIMIT_EXCEEDED = You have too many favorites
    .detail = You may keep { $max } favorites; remove one first.
SELECTIONS_SOURCE_DELETED = The selection has been deleted
SELECTIONS_SOURCE_EMPTY = The selection is empty
SELECTIONS_CODE_UNAVAILABLE = No public code is free at the moment
    .detail = Wait as long as Retry-After says, then try again.

favorites_title = Favorites
