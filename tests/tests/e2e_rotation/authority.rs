//! Client certificates of an authority that the API server believes.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tests::{Cluster, Folder};

use crate::bench::{Bench, cluster, objects};

/// How long other certificates are good, in seconds.
pub(crate) const LONG: u64 = 86_400;

/// An authority that the API server believes, and the certificates that it issues.
pub(crate) struct Authority(Folder);

impl Authority {
    /// The one of all tests, which the API server believes.
    pub(crate) fn get() -> &'static Self {
        static AUTHORITY: OnceLock<Authority> = OnceLock::new();
        AUTHORITY.get_or_init(|| Self::new(cluster()))
    }

    /// Makes one and makes the API server believe it.
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let folder = Folder::new("authority");
        folder.write(
            "ca.conf",
            "[ca]\ndefault_ca = own\n[own]\ndatabase = index\nnew_certs_dir = .\nrand_serial = yes\nunique_subject = no\n\
             default_md = sha256\npolicy = any\nx509_extensions = client\n[any]\ncommonName = supplied\n\
             [client]\nbasicConstraints = CA:FALSE\nextendedKeyUsage = clientAuth\n",
        );
        folder.write("index", "");
        let authority = Self(folder);
        authority.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=rotation -keyout ca.key -out ca.crt");
        // The server looks at the file again when it changes.
        let own = fs::read_to_string(authority.0.path().join("ca.crt")).expect("it was made");
        let both = fs::read_to_string(cluster.ca()).expect("it is there") + &own;
        fs::write(cluster.ca(), both).expect("it can be written");
        authority
    }

    /// Issues a certificate for a user that is good so long, and gives certificate and key.
    pub(crate) fn issue(&self, user: &str, seconds: u64) -> (String, String) {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&format!(
            "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={user} -keyout me.key -out me.csr\n\
             openssl ca -batch -notext -config ca.conf -cert ca.crt -keyfile ca.key -in me.csr -out me.crt \
             -startdate $(date -u -d '-1 hour' +%Y%m%d%H%M%SZ) -enddate $(date -u -d '+{seconds} seconds' +%Y%m%d%H%M%SZ)"
        ));
        let read = |name: &str| fs::read_to_string(self.0.path().join(name)).expect("it was made");
        (read("me.crt"), read("me.key"))
    }

    /// Runs commands in its folder.
    fn run(&self, lines: &str) {
        tests::process::run(Command::new("sh").args(["-ec", lines]).current_dir(self.0.path()));
    }
}

/// A gateway whose kubeconfig names a certificate that is good so long and its key, with their folder; user and namespace have
/// one name.
pub(crate) fn certified(name: &'static str, seconds: u64) -> (Folder, Bench) {
    // The certificate's time does not run while the gateway is built.
    tests::gateway::binary();
    cluster().apply(&objects(name));
    let folder = Folder::new("certificate");
    let (certificate, key) = Authority::get().issue(name, seconds);
    folder.write("me.crt", certificate);
    folder.write("me.key", key);
    let user = "{client-certificate: me.crt, client-key: me.key}";
    let bench = Bench::start(name, &folder, user);
    (folder, bench)
}
