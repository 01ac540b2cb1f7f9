CRM_DEAL_NOT_FOUND = Такой сделки нет
CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN = Завершить сделку вручную нельзя
    .detail = Сделку завершает застройщик, после государственного реестра.
CRM_DEAL_STEP_NOT_FOUND = В воронке застройщика нет такого этапа
    .detail = Там нужен действующий этап.
CRM_DEAL_CONTRACT_TYPE_REQUIRED = Нужны тип договора и способ оплаты
    .detail = Сначала заполните данные договора.
CRM_DEAL_ALREADY_TERMINAL = Сделка окончена
CRM_DEAL_CONFLICT = Сделка тем временем изменилась
    .detail = Перечитайте её и повторите изменение.
CRM_DEAL_MOVE_FORBIDDEN = Со своего этапа сделка туда не переходит
CRM_DEAL_BOOKING_REQUIRED = У сделки нет действующей брони
CRM_DEAL_BOOKING_ALREADY_ACTIVE = У сделки уже есть действующая бронь
CRM_PROPERTY_OBJECT_NOT_FOUND = Такого объекта нет
CRM_PROPERTY_OBJECT_NOT_AVAILABLE = Объект продан или не продаётся
CRM_PROPERTY_OBJECT_ALREADY_BOOKED = Объект забронирован другой сделкой
CRM_DEVELOPER_NOT_ACTIVE = Застройщик не активен
CRM_DEVELOPER_NOT_FOUND = Такого застройщика нет
CRM_STEP_NOT_FOUND = Такого этапа нет
CRM_PIPELINE_STEP_GROUP_FIXED = Группа этапа не меняется
CRM_PIPELINE_CONFLICT = Воронка тем временем изменилась
    .detail = Перечитайте её и повторите изменение.
CRM_SELECTION_NOT_FOUND = У сделки нет подборки, которую можно показать

# Why a member was refused.
bad_account_number = В номере счёта 20 цифр

# The steps of a developer's first pipeline.
step_new = Новая
step_negotiation = Переговоры
step_booking = Бронь
step_contract = Договор
step_registration = Регистрация
step_completed = Завершена
step_cancelled = Отменена
