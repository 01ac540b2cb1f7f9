// A participant of a call, with LiveKit's own client. It connects with the token in the
// environment, publishes the source in its first argument (microphone or camera), and prints each
// event as a line. It leaves when its standard input ends.
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

// Bitrate of the published empty samples, in bits per second.
const bitrate = 32_000

var output sync.Mutex

func main() {
	room, err := lksdk.ConnectToRoomWithToken(os.Getenv("LIVEKIT_URL"), os.Getenv("LIVEKIT_TOKEN"), &lksdk.RoomCallback{
		OnDisconnectedWithReason: func(reason lksdk.DisconnectionReason) {
			report("disconnected: %s", reason)
			os.Exit(0)
		},
		OnReconnected:       func() { report("reconnected") },
		ParticipantCallback: lksdk.ParticipantCallback{OnTrackSubscribed: receive},
	})
	if err != nil {
		report("refused: %v", err)
		os.Exit(1)
	}
	report("connected")
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
		report("not published: %v", err)
		return
	}
	report("published")
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

// Prints the sender of a track after its first packet.
func receive(track *webrtc.TrackRemote, _ *lksdk.RemoteTrackPublication, sender *lksdk.RemoteParticipant) {
	if _, _, err := track.ReadRTP(); err == nil {
		report("receives %s", sender.Identity())
	}
}

func report(format string, arguments ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", arguments...)
}
