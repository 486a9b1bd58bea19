lathe_tests(ast_tests core view ast TESTS
  unit/ast_test rules/value_rules_test golden/ast_test golden/machine_form_test error/ast_errors_test property/ast_passes_test
  property/math_pass_test property/full_vectors_test property/peel_test property/interleave_test)
