"""The controllers of CertificateSigningRequests: approval of kubelets' requests, signing, and cleaning up."""
