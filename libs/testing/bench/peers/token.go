package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/golang-jwt/jwt/v5"
)

type claims struct {
	jwt.RegisteredClaims
	Permissions []string `json:"permissions"`
}

// verifier verifies tokens and caches them, as the services do.
type verifier struct {
	issuer string
	keys   map[string]*ecdsa.PublicKey
	cache  sync.Map
}

func newVerifier(issuer string) (*verifier, error) {
	var discovery struct {
		JwksURI string `json:"jwks_uri"`
	}
	if err := get(issuer+"/.well-known/openid-configuration", &discovery); err != nil {
		return nil, err
	}
	var set struct {
		Keys []struct{ Kid, X, Y string }
	}
	if err := get(discovery.JwksURI, &set); err != nil {
		return nil, err
	}
	keys := map[string]*ecdsa.PublicKey{}
	for _, key := range set.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(key.X)
		y, errY := base64.RawURLEncoding.DecodeString(key.Y)
		if err := errors.Join(errX, errY); err != nil {
			return nil, err
		}
		keys[key.Kid] = &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y)}
	}
	return &verifier{issuer: issuer, keys: keys}, nil
}

func get(url string, body any) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(body)
}

// caller returns the user of a request that has the permission.
func (v *verifier) caller(r *http.Request, permission string) (string, bool) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return "", false
	}
	cached, found := v.cache.Load(token)
	if !found {
		parsed := &claims{}
		_, err := jwt.ParseWithClaims(token, parsed, v.key, jwt.WithIssuer(v.issuer), jwt.WithValidMethods([]string{"ES256"}))
		if err != nil {
			return "", false
		}
		cached, _ = v.cache.LoadOrStore(token, parsed)
	}
	verified := cached.(*claims)
	// The validator checks the expiry of a cached token again.
	if jwt.NewValidator().Validate(verified) != nil {
		return "", false
	}
	return verified.Subject, slices.Contains(verified.Permissions, permission)
}

func (v *verifier) key(token *jwt.Token) (any, error) {
	kid, _ := token.Header["kid"].(string)
	if key, found := v.keys[kid]; found {
		return key, nil
	}
	return nil, errors.New("unknown key")
}
