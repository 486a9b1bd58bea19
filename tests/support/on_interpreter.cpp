// Part of a program whose tests say what a model means: the interpreter is on every machine and compiles
// nothing.
#include "lathe/executable.hpp"

namespace {
const bool interpreted = (lathe::set_default_device("interp"), true);
}
