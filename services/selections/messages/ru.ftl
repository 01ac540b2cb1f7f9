SELECTIONS_NOT_FOUND = Такой подборки нет
SELECTIONS_SNAPSHOT_NOT_FOUND = Такого снимка подборки нет
SELECTIONS_CONCURRENCY_CONFLICT = Подборку изменил другой запрос
    .detail = Перечитайте подборку и повторите изменение.
SELECTIONS_DUPLICATE_ITEM = Объект встречается в списке дважды
SELECTIONS_ITEMS_LIMIT_EXCEEDED = Список слишком длинный
    .detail = В подборке может быть не более { $max } объектов.
SELECTIONS_LIMIT_EXCEEDED = У вас слишком много подборок
    .detail = Можно иметь не более { $max } подборок. Сначала удалите одну.
SELECTIONS_FAVORITES_EMPTY = В избранном ничего нет
SELECTIONS_FAVORITES_LIMIT_EXCEEDED = В избранном слишком много объектов
    .detail = В избранном может быть не более { $max } объектов. Сначала уберите один.
SELECTIONS_SOURCE_DELETED = Подборка удалена
SELECTIONS_SOURCE_EMPTY = Подборка пуста
SELECTIONS_CODE_UNAVAILABLE = Сейчас нет свободного публичного кода
    .detail = Повторите запрос через время, указанное в Retry-After.

favorites_title = Избранное
