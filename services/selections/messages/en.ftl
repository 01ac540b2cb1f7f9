SELECTIONS_NOT_FOUND = There is no such selection
SELECTIONS_SNAPSHOT_NOT_FOUND = There is no such snapshot
SELECTIONS_CONCURRENCY_CONFLICT = The selection was changed by another request
    .detail = Read the selection again, then repeat your change.
SELECTIONS_DUPLICATE_ITEM = A property object is in the list twice
SELECTIONS_ITEMS_LIMIT_EXCEEDED = The list is too long
    .detail = A selection can have at most { $max } property objects.
SELECTIONS_LIMIT_EXCEEDED = You have too many selections
    .detail = You can have at most { $max } selections. Delete one first.
SELECTIONS_FAVORITES_EMPTY = You have no favorites
SELECTIONS_FAVORITES_LIMIT_EXCEEDED = You have too many favorites
    .detail = You can have at most { $max } favorites. Remove one first.
SELECTIONS_SOURCE_DELETED = The selection has been deleted
SELECTIONS_SOURCE_EMPTY = The selection is empty
SELECTIONS_CODE_UNAVAILABLE = No public code is available at the moment
    .detail = Try again after the time in Retry-After.

favorites_title = Favorites
