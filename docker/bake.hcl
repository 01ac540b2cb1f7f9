# The images of all services from one build:
#   docker buildx bake --file docker/bake.hcl                 # all
#   docker buildx bake --file docker/bake.hcl selections      # one
# REGISTRY, VERSION and REVISION are environment variables.

variable "REGISTRY" {
  default = "platform"
}

variable "VERSION" {
  default = "0.0.0"
}

variable "REVISION" {
  default = "unknown"
}

group "default" {
  targets = ["image"]
}

target "image" {
  name       = service
  matrix     = { service = ["agent", "chessboard", "crm", "identity", "messenger", "news", "selections"] }
  context    = "."
  dockerfile = "docker/Dockerfile"
  args       = { SERVICE = service, VERSION = VERSION, REVISION = REVISION }
  tags       = ["${REGISTRY}/${service}:${VERSION}"]
}

# The builder alone, for its cache.
target "builder" {
  context    = "."
  dockerfile = "docker/Dockerfile"
  target     = "builder"
  output     = ["type=cacheonly"]
}
