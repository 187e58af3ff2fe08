//! The Lua scripts, which the server runs atomically.

use redis::Script;
use std::sync::LazyLock;

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!(concat!("lua/", $file))));
    };
}

script!(ACQUIRE, "acquire.lua");
script!(EXTEND, "extend.lua");
script!(RELEASE, "release.lua");
script!(READ, "read.lua");
script!(ACCEPT, "accept.lua");
script!(DEAD_LETTER, "dead_letter.lua");
script!(LEAVE, "leave.lua");
