// Somebody in a call, by LiveKit's own client. They connect with the token that they were given, publish what their first
// argument names (microphone or camera), and say on standard output what becomes of it, a line each. They leave when their
// standard input ends.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/livekit/protocol/livekit"
	lksdk "github.com/livekit/server-sdk-go/v2"
	"github.com/pion/webrtc/v4"
)

// Bits a second of the silence that is published.
const bitrate = 32_000

var output sync.Mutex

func main() {
	room, err := lksdk.ConnectToRoomWithToken(os.Getenv("LIVEKIT_URL"), os.Getenv("LIVEKIT_TOKEN"), &lksdk.RoomCallback{
		OnDisconnectedWithReason: func(reason lksdk.DisconnectionReason) {
			say("disconnected: %s", reason)
			os.Exit(0)
		},
		OnReconnected:       func() { say("reconnected") },
		ParticipantCallback: lksdk.ParticipantCallback{OnTrackSubscribed: hear},
	})
	if err != nil {
		say("refused: %v", err)
		os.Exit(1)
	}
	say("connected")
	go publish(room)
	io.Copy(io.Discard, os.Stdin)
	room.Disconnect()
}

func publish(room *lksdk.Room) {
	capability, source, err := published(os.Args[1:])
	if err == nil {
		var track *lksdk.LocalTrack
		if track, err = lksdk.NewLocalSampleTrack(capability); err == nil {
			track.StartWrite(lksdk.NewNullSampleProvider(bitrate), nil)
			_, err = room.LocalParticipant.PublishTrack(track, &lksdk.TrackPublicationOptions{Source: source})
		}
	}
	if err != nil {
		say("not published: %v", err)
		return
	}
	say("published")
}

func published(arguments []string) (webrtc.RTPCodecCapability, livekit.TrackSource, error) {
	switch {
	case len(arguments) == 1 && arguments[0] == "microphone":
		opus := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48_000, Channels: 2}
		return opus, livekit.TrackSource_MICROPHONE, nil
	case len(arguments) == 1 && arguments[0] == "camera":
		vp8 := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: 90_000}
		return vp8, livekit.TrackSource_CAMERA, nil
	}
	return webrtc.RTPCodecCapability{}, livekit.TrackSource_UNKNOWN, errors.New("neither microphone nor camera")
}

// Says who is heard as soon as something of them has arrived.
func hear(track *webrtc.TrackRemote, _ *lksdk.RemoteTrackPublication, of *lksdk.RemoteParticipant) {
	if _, _, err := track.ReadRTP(); err == nil {
		say("hears %s", of.Identity())
	}
}

func say(format string, arguments ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", arguments...)
}
