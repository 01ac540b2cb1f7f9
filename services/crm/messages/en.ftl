CRM_DEAL_NOT_FOUND = There is no such deal
CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN = An override cannot complete a deal
    .detail = The developer completes the deal after its entry in the state property registry.
CRM_DEAL_STEP_NOT_FOUND = The developer's pipeline has no such step
    .detail = Choose a live step, or add one to the pipeline.
CRM_DEAL_CONTRACT_TYPE_REQUIRED = Contract type and payment method are required
    .detail = Fill in the contract data first.
CRM_DEAL_ALREADY_TERMINAL = The deal has ended
CRM_DEAL_CONFLICT = The deal has changed since you read it
    .detail = Read it again and repeat your change.
CRM_DEAL_MOVE_FORBIDDEN = This change is not allowed in the deal's current step
CRM_DEAL_BOOKING_REQUIRED = The deal has no active booking
CRM_DEAL_BOOKING_ALREADY_ACTIVE = The deal already has an active booking
CRM_PROPERTY_OBJECT_NOT_FOUND = There is no such property object
CRM_PROPERTY_OBJECT_NOT_AVAILABLE = The property object is sold or not for sale
CRM_PROPERTY_OBJECT_ALREADY_BOOKED = Another deal has booked the property object
CRM_DEVELOPER_NOT_ACTIVE = The developer is not active
CRM_CLIENT_IS_ACTOR = You cannot be the client of a deal that you manage
    .detail = Ask a colleague to manage the deal.
CRM_AGENT_IS_ACTOR = You cannot be the agent of a deal that you manage
    .detail = Choose another agent, or ask a colleague to manage the deal.
CRM_AGENT_IS_CLIENT = The agent and the client are the same person
    .detail = Choose another agent.
CRM_AGENT_NOT_ACTIVE = The agent does not work for an active agency
    .detail = Choose an active employee of an active agency.
CRM_AMOUNT_OUT_OF_TOLERANCE = The amount differs too much from the price of the property object
    .detail = Ask the platform to set this amount.
CRM_SELECTION_NOT_OF_CLIENT = The client has no such selection
    .detail = Choose a selection of the client that is not deleted.
CRM_DEVELOPER_NOT_FOUND = There is no such developer
CRM_STEP_NOT_FOUND = There is no such step
CRM_PIPELINE_STEP_GROUP_FIXED = The group of a step cannot change
CRM_PIPELINE_CONFLICT = The pipeline has changed since you read it
    .detail = Read it again and repeat your change.
CRM_SELECTION_NOT_FOUND = The deal has no selection that can be shown

# Reasons why a member is refused.
bad_account_number = An account number has 20 digits

# The steps of a new pipeline.
step_new = New
step_negotiation = Negotiation
step_booking = Booking
step_contract = Contract
step_registration = Registration
step_completed = Completed
step_cancelled = Cancelled
