CRM_DEAL_NOT_FOUND = Такой сделки нет
CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN = Завершить сделку вручную нельзя
    .detail = Сделку завершает застройщик после записи в государственном реестре недвижимости.
CRM_DEAL_STEP_NOT_FOUND = В воронке застройщика нет такого этапа
    .detail = Выберите действующий этап или добавьте его в воронку.
CRM_DEAL_CONTRACT_TYPE_REQUIRED = Нужны тип договора и способ оплаты
    .detail = Сначала заполните данные договора.
CRM_DEAL_ALREADY_TERMINAL = Сделка окончена
CRM_DEAL_CONFLICT = Сделку уже изменили
    .detail = Обновите данные и повторите изменение.
CRM_DEAL_MOVE_FORBIDDEN = На текущем этапе сделки это действие недоступно
CRM_DEAL_BOOKING_REQUIRED = У сделки нет действующей брони
CRM_DEAL_BOOKING_ALREADY_ACTIVE = У сделки уже есть действующая бронь
CRM_PROPERTY_OBJECT_NOT_FOUND = Такого объекта нет
CRM_PROPERTY_OBJECT_NOT_AVAILABLE = Объект продан или не продаётся
CRM_PROPERTY_OBJECT_ALREADY_BOOKED = Объект забронирован другой сделкой
CRM_DEVELOPER_NOT_ACTIVE = Застройщик не активен
CRM_CLIENT_IS_ACTOR = Нельзя вести сделку, в которой клиент вы сами
    .detail = Передайте сделку коллеге.
CRM_AGENT_IS_ACTOR = Нельзя вести сделку, в которой агент вы сами
    .detail = Выберите другого агента или передайте сделку коллеге.
CRM_AGENT_IS_CLIENT = Агент и клиент — один человек
    .detail = Выберите другого агента.
CRM_AGENT_NOT_ACTIVE = Агент не работает в действующем агентстве
    .detail = Выберите действующего сотрудника действующего агентства.
CRM_AMOUNT_OUT_OF_TOLERANCE = Сумма слишком отличается от цены объекта
    .detail = Такую сумму может указать платформа.
CRM_SELECTION_NOT_OF_CLIENT = У клиента нет такой подборки
    .detail = Выберите неудалённую подборку клиента.
CRM_DEVELOPER_NOT_FOUND = Такого застройщика нет
CRM_STEP_NOT_FOUND = Такого этапа нет
CRM_PIPELINE_STEP_GROUP_FIXED = Группу этапа изменить нельзя
CRM_PIPELINE_CONFLICT = Воронку уже изменили
    .detail = Обновите данные и повторите изменение.
CRM_SELECTION_NOT_FOUND = У сделки нет подборки, которую можно показать

# Reasons why a member is refused.
bad_account_number = В номере счёта 20 цифр

# The steps of a new pipeline.
step_new = Новая
step_negotiation = Переговоры
step_booking = Бронь
step_contract = Договор
step_registration = Регистрация
step_completed = Завершена
step_cancelled = Отменена
