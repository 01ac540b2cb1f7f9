# Ошибки, общие для всех областей.
VALIDATION_FAILED = Запрос заполнен неверно
    .detail = Что исправить, перечислено в errors.
UNAUTHORIZED = Сначала войдите
    .detail = Токен отсутствует, истёк или здесь не действует.
FORBIDDEN = У вас нет на это прав
NOT_FOUND = Здесь ничего нет
METHOD_NOT_ALLOWED = Этот метод здесь недоступен
UNSUPPORTED_MEDIA_TYPE = Отправьте тело как application/json
REQUEST_TIMEOUT = Тело запроса приходило слишком медленно
PAYLOAD_TOO_LARGE = Тело запроса слишком велико
    .detail = Здесь принимается не более { $max } байт.
RATE_LIMITED = Слишком много запросов
    .detail = Подождите, сколько указано в Retry-After, и повторите.
SERVICE_UNAVAILABLE = Сервис временно недоступен
    .detail = Подождите, сколько указано в Retry-After, и повторите.
INTERNAL_ERROR = На нашей стороне что-то сломалось

# Почему поле отклонено.
malformed = Это не JSON
invalid_type = Значение не того типа
required = Это обязательное поле
duplicate = Это встречается дважды
too_short = { $min ->
    [one] Нужен хотя бы { $min } символ
    [few] Нужно хотя бы { $min } символа
   *[other] Нужно хотя бы { $min } символов
}
too_long = { $max ->
    [one] Допустим не более чем { $max } символ
   *[other] Допустимо не более { $max } символов
}
forbidden_character = В тексте есть символ, который нельзя сохранить
out_of_range = Значение должно быть от { $min } до { $max }
unknown_value = Такое значение не допускается
empty_range = Конец должен быть позже начала
too_few = { $min ->
    [one] Нужен хотя бы { $min } элемент
    [few] Нужно хотя бы { $min } элемента
   *[other] Нужно хотя бы { $min } элементов
}
too_many = { $max ->
    [one] Допускается не более { $max } элемента
   *[other] Допускается не более { $max } элементов
}
