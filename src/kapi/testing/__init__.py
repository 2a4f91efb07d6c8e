"""Support for tests of a control plane, and of programs that use one: checkers of recorded histories."""
