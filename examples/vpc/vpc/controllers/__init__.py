"""The controllers of the operator."""
