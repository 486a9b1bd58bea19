// doctest itself, compiled once for all tests: five seconds that each of them would take.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
