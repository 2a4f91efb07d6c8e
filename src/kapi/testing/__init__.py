"""What tests of a control plane, and of programs that use one, can share: checkers of recorded histories."""
