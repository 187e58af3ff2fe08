//! What must happen in one breath on the server.

use redis::Script;
use std::sync::LazyLock;

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!(concat!("lua/", $file))));
    };
}

script!(TAKE, "take.lua");
script!(EXTEND, "extend.lua");
script!(RELEASE, "release.lua");
script!(READ, "read.lua");
script!(ACCEPT, "accept.lua");
script!(BURY, "bury.lua");
script!(LEAVE, "leave.lua");
