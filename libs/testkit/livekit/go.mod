module local/livekit

go 1.26

tool github.com/livekit/livekit-server/cmd/server

require (
	github.com/livekit/livekit-server v1.13.5
	github.com/livekit/server-sdk-go/v2 v2.16.0
	github.com/pion/webrtc/v4 v4.2.17
)
