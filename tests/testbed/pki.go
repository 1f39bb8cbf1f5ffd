package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// authority is a CA that lives as long as the process.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// serial is a random serial number.
func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err)
	}
	return n
}

// writePEM writes one block.
func writePEM(path, typ string, der []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), mode)
}

// writeKey writes path (SEC1 or PKCS#1, as kubeadm does) and path with .key -> .p8.key (PKCS#8).
func writeKey(path string, k crypto.Signer) error {
	var der []byte
	var err error
	typ := ""
	switch k := k.(type) {
	case *ecdsa.PrivateKey:
		typ = "EC PRIVATE KEY"
		der, err = x509.MarshalECPrivateKey(k)
	case *rsa.PrivateKey:
		typ = "RSA PRIVATE KEY"
		der = x509.MarshalPKCS1PrivateKey(k)
	}
	if err != nil {
		return err
	}
	if err = writePEM(path, typ, der, 0o600); err != nil {
		return err
	}
	p8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return err
	}
	return writePEM(strings.TrimSuffix(path, ".key")+".p8.key", "PRIVATE KEY", p8, 0o600)
}

// newCA makes a CA and writes its certificate.
func newCA(dir, name string) (*authority, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, k.Public(), k)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	return &authority{c, k}, writeKey(filepath.Join(dir, "ca.key"), k)
}

// issue makes a key and a certificate, at base with .key and .crt.
func (a *authority) issue(base, cn string, groups []string, ips []net.IP, names []string, rsaKey bool, ttl time.Duration) error {
	var k crypto.Signer
	var err error
	if rsaKey {
		k, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		k, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return err
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: cn, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ttl),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IPAddresses: ips, DNSNames: names,
	}
	if len(ips)+len(names) > 0 {
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return err
	}
	if err := writePEM(base+".crt", "CERTIFICATE", der, 0o644); err != nil {
		return err
	}
	return writeKey(base+".key", k)
}

// randomToken is a bearer token.
func randomToken() string {
	b := make([]byte, 20)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b)
}

// user is where the credentials of one user lie.
type user struct {
	Name       string   `json:"name"`
	Groups     []string `json:"groups,omitempty"`
	Cert       string   `json:"cert"`
	Key        string   `json:"key"`
	KeyPKCS8   string   `json:"keyPKCS8"`
	TokenFile  string   `json:"tokenFile"`
	Kubeconfig string   `json:"kubeconfig"`      // client certificate, data inline
	KubeToken  string   `json:"kubeconfigToken"` // bearer token
}

// makePKI fills dir with a CA, the server's certificate, the ServiceAccount key and every user's
// certificate and token. The same dir is reused as it is on a restart.
func makePKI(dir string, users []user) error {
	if _, err := os.Stat(filepath.Join(dir, "tokens.csv")); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "users"), 0o755); err != nil {
		return err
	}
	ca, err := newCA(dir, "testbed-ca")
	if err != nil {
		return err
	}
	err = ca.issue(filepath.Join(dir, "apiserver"), "kube-apiserver", nil,
		[]net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("::1"), net.ParseIP("10.96.0.1")},
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		false, 365*24*time.Hour)
	if err != nil {
		return err
	}
	sa, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, "sa.key"), sa); err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(sa.Public())
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", pub, 0o644); err != nil {
		return err
	}
	csv := ""
	for _, u := range users {
		// RSA for "reader-rsa" alone: key generation costs time
		if err := ca.issue(strings.TrimSuffix(u.Cert, ".crt"), strings.TrimSuffix(u.Name, "-rsa"), u.Groups, nil, nil, strings.HasSuffix(u.Name, "-rsa"), 365*24*time.Hour); err != nil {
			return err
		}
		tok := randomToken()
		if err := os.WriteFile(u.TokenFile, []byte(tok), 0o600); err != nil {
			return err
		}
		csv += fmt.Sprintf("%s,%s,uid-%s,%q\n", tok, strings.TrimSuffix(u.Name, "-rsa"), u.Name, strings.Join(u.Groups, ","))
	}
	return os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(csv), 0o600)
}
