lathe_tests(core_tests core TESTS unit/core_test unit/narrow_test unit/on_cores_test unit/scanner_test)
lathe_tests(view_tests core view TESTS
  unit/expr_scope_test unit/expr_test unit/view_test property/view_test rules/expr_rules_test)
